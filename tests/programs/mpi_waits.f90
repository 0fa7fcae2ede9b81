! Two ranks wait for each other: in sends, a neighbourhood collective, a fence, around accesses, and
! in four calls about a file.
program waits
  use MODULE
  implicit none
#ifdef NEW_TYPES
  type(MPI_Win) :: win
  type(MPI_Group) :: all, one
  type(MPI_Comm) :: ring
  type(MPI_File) :: file
#else
  integer :: win, all, one, ring, file
#endif
  integer :: rank, error, other(1), dims(1)
  logical :: whole(1)
  double precision :: big(8192), got(8192), few(2)
  integer(kind=MPI_ADDRESS_KIND) :: bytes
  integer(kind=MPI_OFFSET_KIND) :: first
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  other(1) = 1 - rank
  dims(1) = 2
  whole(1) = .true.
  big = rank
  if (rank == 0) then
    call MPI_Ssend(big, 1, MPI_DOUBLE_PRECISION, 1, 13, MPI_COMM_WORLD, error)
    call MPI_Send(big, 8192, MPI_DOUBLE_PRECISION, 1, 14, MPI_COMM_WORLD, error)
  else
    call MPI_Recv(got, 1, MPI_DOUBLE_PRECISION, 0, 13, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    call MPI_Recv(got, 8192, MPI_DOUBLE_PRECISION, 0, 14, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
  end if
  call MPI_Cart_create(MPI_COMM_WORLD, 1, dims, whole, .false., ring, error)
  call MPI_Neighbor_allgather(few(1), 1, MPI_DOUBLE_PRECISION, got, 1, MPI_DOUBLE_PRECISION, ring, error)
  bytes = 16
  call MPI_Win_create(few, bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win, error)
  call MPI_Win_fence(0, win, error)
  call MPI_Comm_group(MPI_COMM_WORLD, all, error)
  call MPI_Group_incl(all, 1, other, one, error)
  call MPI_Win_post(one, 0, win, error)
  call MPI_Win_start(one, 0, win, error)
  call MPI_Win_complete(win, error)
  call MPI_Win_wait(win, error)
  call MPI_Win_free(win, error)
  call MPI_File_open(MPI_COMM_WORLD, "mpi_waits.data", &
    MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file, error)
  first = 8 * rank
  call MPI_File_set_view(file, first, MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, "native", &
    MPI_INFO_NULL, error)
  call MPI_File_write_all(file, few, 1, MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE, error)
  call MPI_File_close(file, error)
  call MPI_Finalize(error)
end program
