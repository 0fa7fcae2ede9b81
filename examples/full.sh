mkdir -p /tmp/rt/small; mount -t tmpfs -o size=64k tmpfs /tmp/rt/small && { $1 trace -o small/f.trace -- ./omp; echo rc $?; ls -la small; umount small; }
