# redis-server under load, until SIGTERM; it saves its data by a forked child
# needs: redis-check-rdb redis-cli
prepare() { ln -s "$(command -v redis-check-rdb)" redis-server; }
run() {
    $TRACE ./redis-server --port 0 --unixsocket "$PWD/socket" --save '' --dbfilename data.rdb \
        --rdbchecksum no --logfile log &
    server=$!
    client() { redis-cli -s "$PWD/socket" "$@"; }
    until client ping >pong 2>&1 && grep -q PONG pong; do sleep 0.1; done
    seq 1 3000 | awk '{print "SET key" $1 % 500, $1; print "LPUSH list", $1; print "INCR n"}' | client | tail -n 2
    client bgsave >pong
    while client info persistence | grep -q rdb_bgsave_in_progress:1; do sleep 0.1; done
    client info persistence | grep rdb_last_bgsave_status
    client sort list limit 0 5
    kill -TERM $server
    wait $server
    echo "server: $?"
    ls -- *.rdb
    rm -f log pong socket data.rdb
}
