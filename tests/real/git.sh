# git: a repository of 200 files, its history, and a pack
# needs: git
prepare() {
    mkdir tree
    for i in $(seq 200); do seq $((i * 3)) $((i * 5)) >"tree/file$i"; done
}
run() {
    export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z' HOME=$PWD
    export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
    cd tree
    git init -q -b main .
    $TRACE git add .
    $TRACE git commit -q -m one
    seq 100 >file7
    $TRACE git commit -q -a -m two
    $TRACE git -c pack.threads=1 repack -q -a -d
    $TRACE git log --stat
    rm -r .git/logs .git/index .git/hooks  # they hold times and inodes
}
