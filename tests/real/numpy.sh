# Python with numpy, in two threads
# needs: /usr/bin/python3
# module: numpy
run() { $TRACE /usr/bin/python3 -I "$SOURCES/threads.py"; }
