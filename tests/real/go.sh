# a static Go program: goroutines, garbage collection, preemption by signals
# needs: go
prepare() {
    HOME=$PWD CGO_ENABLED=0 GOFLAGS=-mod=mod GO111MODULE=off GOCACHE=$PWD/cache go build -o routines "$SOURCES/routines.go"
    rm -r cache
}
run() { $TRACE ./routines; }
