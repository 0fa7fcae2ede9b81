! Heat conduction on a plate by explicit steps. The start is an eigenvector of the discrete
! operator, so after n steps every point must show the start times the decay factor to the n.
!
!   heat [points per side = 1000] [steps = 10]
program heat
  use, intrinsic :: iso_fortran_env, only: real64
  use pagelens, only: pagelens_region_begin, pagelens_region_end
  implicit none
  real(real64), parameter :: pi = acos(-1.0_real64), ratio = 0.2_real64  ! time step / spacing^2
  real(real64), allocatable :: old(:, :), new(:, :), start(:, :)
  real(real64) :: angle, decay, error
  integer :: side, steps, step, i, j

  side = argument(1, 1000, 'points per side')
  steps = argument(2, 10, 'steps')
  allocate (old(0:side + 1, 0:side + 1), new(0:side + 1, 0:side + 1), start(0:side + 1, 0:side + 1))

  angle = pi / (side + 1)
  do j = 0, side + 1
    do i = 0, side + 1
      start(i, j) = sin(i * angle) * sin(j * angle)
    end do
  end do
  start(:, 0) = 0; start(:, side + 1) = 0; start(0, :) = 0; start(side + 1, :) = 0
  old = start
  new = start

  call pagelens_region_begin('steps')
  do step = 1, steps
    do j = 1, side
      do i = 1, side
        new(i, j) = old(i, j) + ratio * (old(i - 1, j) + old(i + 1, j) + old(i, j - 1) + old(i, j + 1) &
                                         - 4 * old(i, j))
      end do
    end do
    call swap(old, new)
  end do
  call pagelens_region_end('steps')

  decay = (1 - 8 * ratio * sin(angle / 2)**2)**steps
  error = maxval(abs(old - decay * start))
  print '(a, i0, a, i0, a, es7.1, a, a)', 'heat: ', side, '^2 points, ', steps, ' steps, error ', error, &
    ': ', merge('ok    ', 'FAILED', error <= 1e-12_real64)
  if (error > 1e-12_real64) error stop

contains

  integer function argument(index, otherwise, name) result(value)
    integer, intent(in) :: index, otherwise
    character(*), intent(in) :: name
    character(32) :: text
    integer :: status
    value = otherwise
    if (command_argument_count() < index) return
    call get_command_argument(index, text)
    read (text, *, iostat=status) value
    if (status == 0 .and. value >= 1 .and. value <= 30000) return
    print '(5a)', 'heat: ', name, ' is ''', trim(text), '''; give a whole number from 1 to 30000'
    stop 2
  end function

  subroutine swap(a, b)
    real(real64), allocatable, intent(inout) :: a(:, :), b(:, :)
    real(real64), allocatable :: c(:, :)
    call move_alloc(a, c)
    call move_alloc(b, a)
    call move_alloc(c, b)
  end subroutine

end program
