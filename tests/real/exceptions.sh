# C++ exceptions out of a shared library, in threads; the last one ends the program
# needs: g++
prepare() {
    g++ -O2 -shared -fPIC -DLIBRARY -o libthrow.so "$SOURCES/exceptions.cpp"
    g++ -O2 -pthread -o exceptions "$SOURCES/exceptions.cpp" -L. -lthrow '-Wl,-rpath,$ORIGIN'
}
run() {
    ($TRACE ./exceptions 2>said; exit $?) 2>/dev/null  # the shell's own message holds the process's number
    echo "status $?"
    grep -v '^qemu\|^pagelens' said
    rm said
}
