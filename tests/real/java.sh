# Java: its virtual machine compiles while it runs, and uses SIGSEGV by itself
# needs: javac java
prepare() { javac -d . "$SOURCES/Sieve.java"; }
run() { $TRACE java -Xshare:auto -XX:-UsePerfData -cp . Sieve; }
