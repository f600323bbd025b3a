! OpenMP threads relax a grid; a line for each round, and the grid itself in an unformatted file.
program work
    use omp_lib
    implicit none
    integer, parameter :: n = 400, rounds = 120
    real(8), allocatable :: old(:, :), new(:, :)
    real(8) :: change
    integer :: i, j, round, step, times
    character(8) :: told
    allocate (old(n, n), new(n, n))
    call omp_set_num_threads(3)
    old = 0
    old(:, 1) = 1
    old(1, :) = [(sin(0.01d0 * i), i=1, n)]
    new = old
    call get_environment_variable('VICTIM_TIMES', told)
    read (told, *, iostat=i) times
    if (i /= 0) times = 1
    do round = 1, rounds * times
        do step = 1, 20
            change = 0
            !$omp parallel do reduction(max:change) private(i)
            do j = 2, n - 1
                do i = 2, n - 1
                    new(i, j) = 0.25d0 * (old(i - 1, j) + old(i + 1, j) + old(i, j - 1) + old(i, j + 1))
                    change = max(change, abs(new(i, j) - old(i, j)))
                end do
            end do
            !$omp end parallel do
            old = new
        end do
        print '(a, i6, a, es24.16)', 'round', round, ' change', change
        flush (6)
    end do
    open (unit=10, file='grid', form='unformatted', access='stream')
    write (10) old
    close (10)
    print '(a, es24.16)', 'end', sum(old)
end program work
