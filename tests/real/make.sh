# make with two jobs at a time
# needs: make gcc
prepare() {
    for i in 1 2 3; do echo "int f$i(void) { return $i; }" >f$i.c; done
    echo 'int f1(void), f2(void), f3(void); int main(void) { return f1() + f2() + f3(); }' >main.c
    printf 'all: main.o f1.o f2.o f3.o\n\tgcc -o all $^\n' >Makefile
}
run() {
    $TRACE make -s -j2
    ./all
}
