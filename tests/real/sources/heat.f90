! Heat in a square, whole arrays at a time, with formatted and unformatted files.
program heat
    implicit none
    integer, parameter :: n = 128
    real(8), allocatable :: now(:, :), next(:, :)
    integer :: step
    allocate (now(n, n), next(n, n))
    now = 0
    now(1, :) = 100
    next = now
    do step = 1, 100
        next(2:n - 1, 2:n - 1) = 0.25d0*(now(1:n - 2, 2:n - 1) + now(3:n, 2:n - 1) &
                                         + now(2:n - 1, 1:n - 2) + now(2:n - 1, 3:n))
        now = next
    end do
    open (10, file='heat.bin', form='unformatted', access='stream')
    write (10) now
    close (10)
    print '(3f12.6)', sum(now), maxval(now(2:n - 1, :)), now(10, n/2)
end program heat
