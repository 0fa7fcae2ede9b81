# Node.js: JavaScript, compiled while it runs
# needs: node
run() { $TRACE node "$SOURCES/sieve.js"; }
