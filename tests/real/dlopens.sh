# 10,000 dlopens, of two libraries in turn
# needs: gcc
prepare() {
    for name in one two; do
        echo "int ${name}[4096]; int value(void) { return ++${name}[7]; }" >$name.c
        gcc -O1 -shared -fPIC -o $name.so $name.c
    done
    gcc -O1 -o dlopens "$SOURCES/dlopens.c"
}
run() { $TRACE ./dlopens 10000; }
