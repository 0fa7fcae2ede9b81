# a Fortran program (gfortran)
# needs: gfortran
prepare() { gfortran -O3 -march=x86-64-v3 -o heat "$SOURCES/heat.f90"; }
run() { $TRACE ./heat; }
