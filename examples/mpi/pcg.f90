! pcg: a large sparse system of linear equations by preconditioned conjugate gradients.
!
! PCG of "Diskless Checkpointing" (1998). The matrix is that of a diffusion through a cube of unequal material, seven points a
! row, kept as seven vectors; with right-hand side and preconditioner nine vectors never change, and five do in each step.
! Each rank has some planes of the cube (Hestenes and Stiefel 1952; the preconditioner is the diagonal).
!
! Scalar products are added plane by plane in one order, so that nothing depends on the number of ranks. Self-checks: the
! residual, calculated again; and the solution, which is known, as the right-hand side was made from it.
!
! usage: mpirun -n RANKS pcg [SIDE OF THE CUBE (64) [ITERATIONS AT MOST (1000)]]
program pcg
    use mpi_f08
    use parallel
    use example
    implicit none
    real(real64), parameter :: tolerance = 1e-11_real64
    integer :: n, first, planes, iteration, iterations_max, at, from = 1
    integer, allocatable :: counts(:), starts(:)
    ! One of the six neighbours and oneself, as factors of a row.
    real(real64), allocatable, dimension(:, :, :) :: centre, west, east, south, north, below, above, right, scale
    real(real64), allocatable, dimension(:, :, :) :: x, r, z, p, q
    real(real64) :: rz_before, bb, step
    real(real64), save :: rz

    call start()
    n = argument(1, 64, 1, 2048)
    iterations_max = argument(2, 1000, 1, 100000000)
    if (n < ranks) error stop 'there are more ranks than planes'
    starts = [(int(int(n, int64)*at/ranks), at=0, ranks - 1)]
    counts = [starts(2:), n] - starts
    first = starts(rank + 1)
    planes = counts(rank + 1)
    call make_matrix()
    call make_right_side()

    x = 0*right
    r = right
    z = scale*r
    call fresh(p)
    p(1:n, 1:n, 1:planes) = z
    rz = product_of(r, z)
    bb = product_of(right, right)
    call standfast_protect_all(0, from, rz, x, r, p)
    if (standfast_restored()) call tell()
    do iteration = from, iterations_max
        from = iteration
        if (standfast_due()) call standfast_checkpoint()
        call multiply(p, q)
        step = rz/product_of(p(1:n, 1:n, 1:planes), q)
        x = x + step*p(1:n, 1:n, 1:planes)
        r = r - step*q
        if (product_of(r, r) <= tolerance**2*bb) exit
        z = scale*r
        rz_before = rz
        rz = product_of(r, z)
        p(1:n, 1:n, 1:planes) = z + rz/rz_before*p(1:n, 1:n, 1:planes)
        if (mod(iteration, 50) == 0) call tell()
    end do

    call check_all('iterations', real(iteration, real64), real(iterations_max, real64))
    p(1:n, 1:n, 1:planes) = x
    call multiply(p, q)
    call check_all('residual', sqrt(product_of(right - q, right - q)/bb), 10*tolerance)
    call truth(p)
    call check_all('error of the solution', maxval(abs(x - p(1:n, 1:n, 1:planes))), 1e-7_real64)
    call finish(checksum_of(x))

contains

    subroutine tell()
        if (rank /= 0) return
        print '(a, i0)', 'iteration ', from
        flush (6)
    end subroutine tell

    ! With a rim of zeros, and with the planes of the neighbouring ranks.
    subroutine fresh(field)
        real(real64), allocatable, intent(out) :: field(:, :, :)
        allocate (field(0:n + 1, 0:n + 1, 0:planes + 1))
        field = 0
    end subroutine fresh

    ! How well the material conducts between a cell and the next one in a direction; the edge of the cube conducts as well.
    pure real(real64) function conduction(i, j, k, direction)
        integer, intent(in) :: i, j, k, direction
        integer(int64) :: index
        index = ((int(k, int64)*(n + 1) + j)*(n + 1) + i)*3 + direction
        conduction = 1 + 9*random(index)
    end function conduction

    subroutine make_matrix()
        integer :: i, j, k, plane
        allocate (centre(n, n, planes), west(n, n, planes), east(n, n, planes), south(n, n, planes), north(n, n, planes))
        allocate (below(n, n, planes), above(n, n, planes), right(n, n, planes), q(n, n, planes))
        do k = 1, planes
            plane = first + k
            do j = 1, n
                do i = 1, n
                    west(i, j, k) = -conduction(i - 1, j, plane, 0)
                    east(i, j, k) = -conduction(i, j, plane, 0)
                    south(i, j, k) = -conduction(i, j - 1, plane, 1)
                    north(i, j, k) = -conduction(i, j, plane, 1)
                    below(i, j, k) = -conduction(i, j, plane - 1, 2)
                    above(i, j, k) = -conduction(i, j, plane, 2)
                end do
            end do
        end do
        centre = -(west + east + south + north + below + above)
        scale = 1/centre
    end subroutine make_matrix

    ! The solution as it was chosen, and what follows from it.
    subroutine truth(field)
        real(real64), intent(inout) :: field(0:, 0:, 0:)
        integer :: i, j, k
        do k = 1, planes
            do j = 1, n
                do i = 1, n
                    field(i, j, k) = random(-((int(first + k, int64)*n + j)*n + i)) - 0.5_real64
                end do
            end do
        end do
    end subroutine truth

    subroutine make_right_side()
        real(real64), allocatable :: field(:, :, :)
        call fresh(field)
        call truth(field)
        call multiply(field, right)
    end subroutine make_right_side

    ! Fetches the neighbours' planes and multiplies by the matrix.
    subroutine multiply(field, product)
        real(real64), intent(inout) :: field(0:, 0:, 0:)
        real(real64), intent(out) :: product(:, :, :)
        integer :: down, up, size_of_plane
        down = merge(rank - 1, MPI_PROC_NULL, rank > 0)
        up = merge(rank + 1, MPI_PROC_NULL, rank + 1 < ranks)
        size_of_plane = (n + 2)**2
        call MPI_Sendrecv(field(0, 0, 1), size_of_plane, MPI_DOUBLE_PRECISION, down, 1, field(0, 0, planes + 1), &
                          size_of_plane, MPI_DOUBLE_PRECISION, up, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        call MPI_Sendrecv(field(0, 0, planes), size_of_plane, MPI_DOUBLE_PRECISION, up, 2, field(0, 0, 0), &
                          size_of_plane, MPI_DOUBLE_PRECISION, down, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        product = centre*field(1:n, 1:n, 1:planes) + west*field(0:n - 1, 1:n, 1:planes) + east*field(2:n + 1, 1:n, 1:planes) &
                  + south*field(1:n, 0:n - 1, 1:planes) + north*field(1:n, 2:n + 1, 1:planes) &
                  + below*field(1:n, 1:n, 0:planes - 1) + above*field(1:n, 1:n, 2:planes + 1)
    end subroutine multiply

    ! Each plane is summed where it lies, and the sums of all planes in their order.
    real(real64) function product_of(one, other)
        real(real64), intent(in) :: one(:, :, :), other(:, :, :)
        real(real64) :: own(planes), all(n)
        integer :: k
        do k = 1, planes
            own(k) = sum(one(:, :, k)*other(:, :, k))
        end do
        call MPI_Allgatherv(own, planes, MPI_DOUBLE_PRECISION, all, counts, starts, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD)
        product_of = 0
        do k = 1, n
            product_of = product_of + all(k)
        end do
    end function product_of

    ! Goes on over the planes of all ranks in turn.
    integer(int64) function checksum_of(field)
        real(real64), intent(in) :: field(:, :, :)
        checksum_of = checksum_start
        if (rank > 0) call MPI_Recv(checksum_of, 1, MPI_INTEGER8, rank - 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        checksum_of = checksum(checksum_of, reshape(field, [size(field)]))
        if (rank + 1 < ranks) call MPI_Send(checksum_of, 1, MPI_INTEGER8, rank + 1, 3, MPI_COMM_WORLD)
        call MPI_Bcast(checksum_of, 1, MPI_INTEGER8, ranks - 1, MPI_COMM_WORLD)
    end function checksum_of

end program pcg
