! As mpi_turns.c: in each round one of the ranks works, and the others wait for it. The preprocessor
! gets the module of MPI.
program mpi_turns
  use MODULE
  implicit none
  integer, parameter :: doubles = 32768, rounds = 8
  integer :: rank, ranks, error, round, i
  real(8) :: array(doubles), mine, total

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  array = 0
  mine = 0
  do round = 0, rounds * ranks - 1
    if (mod(round, ranks) == rank) then
      do i = 2, doubles
        array(i) = 0.5d0 * array(i - 1) + array(i)
      end do
      mine = mine + array(doubles)
    end if
    call MPI_Allreduce(mine, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  end do
  if (rank == 0) print *, total
  call MPI_Finalize(error)
end program
