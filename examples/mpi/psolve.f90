! psolve: several systems of linear equations, one after the other, in parallel.
!
! PSOLVE of "Memory Exclusion" (1996): ScaLAPACK's LU decomposition, of a matrix in blocks that are dealt out to a grid of
! ranks. Between two systems the matrix is dead.
!
! The sums within ScaLAPACK are told to be added in one order. Self-check: the normwise backward error of each solution. The
! checksum depends on the number of ranks, as the order of additions does.
!
! usage: mpirun -n RANKS psolve [EQUATIONS (1000) [SYSTEMS (7)]]
program psolve
    use mpi_f08
    use parallel
    use example
    implicit none
    integer, parameter :: block = 32, repeatable_sums = 15
    integer :: equations, systems, number, context, grid_rows, grid_cols, row, col, local_rows, local_cols, info
    integer :: matrix_is(9), right_is(9)
    integer, external :: numroc, indxl2g
    integer, allocatable :: pivots(:)
    real(real64), allocatable :: matrix(:, :), right(:), x(:)
    real(real64), save :: worst
    integer(int64), save :: hash
    integer :: from = 1

    call start()
    equations = argument(1, 1000, 1, 65536)
    systems = argument(2, 7, 1, 1000000)
    grid_rows = int(sqrt(real(ranks)))
    do while (mod(ranks, grid_rows) /= 0)
        grid_rows = grid_rows - 1
    end do
    grid_cols = ranks/grid_rows
    call blacs_get(-1, 0, context)
    call blacs_gridinit(context, 'R', grid_rows, grid_cols)
    call blacs_set(context, repeatable_sums, [1])
    call blacs_gridinfo(context, grid_rows, grid_cols, row, col)
    local_rows = numroc(equations, block, row, 0, grid_rows)
    local_cols = numroc(equations, block, col, 0, grid_cols)
    allocate (matrix(max(1, local_rows), max(1, local_cols)), right(max(1, local_rows)), x(equations))
    allocate (pivots(local_rows + block))
    call descinit(matrix_is, equations, equations, block, block, 0, 0, context, max(1, local_rows), info)
    call descinit(right_is, equations, 1, block, block, 0, 0, context, max(1, local_rows), info)

    hash = checksum_start
    worst = 0
    call standfast_protect_all(0, from, worst, hash)
    if (standfast_restored() .and. rank == 0) call tell()
    do number = from, systems
        from = number
        if (standfast_due()) call standfast_checkpoint()
        call generate()
        call pdgesv(equations, 1, matrix, 1, 1, matrix_is, pivots, right, 1, 1, right_is, info)
        if (info /= 0) error stop 'a singular matrix'
        call gather_solution()
        worst = max(worst, backward_error())
        hash = checksum(hash, x)
        if (rank == 0) call tell()
    end do
    call check_all('backward error of a solution', worst, 1e-13_real64)
    call finish(hash)

contains

    subroutine tell()
        print '(a, i0, a, i0)', 'system ', from, ' of ', systems
        flush (6)
    end subroutine tell

    pure real(real64) function entry_of(row, col)
        integer, intent(in) :: row, col
        entry_of = random((int(number, int64)*65537 + col)*65537 + row) - 0.5_real64
    end function entry_of

    subroutine generate()
        integer :: i, j
        do j = 1, local_cols
            do i = 1, local_rows
                matrix(i, j) = entry_of(indxl2g(i, block, row, 0, grid_rows), indxl2g(j, block, col, 0, grid_cols))
            end do
        end do
        do i = 1, local_rows
            right(i) = entry_of(indxl2g(i, block, row, 0, grid_rows), equations + 1)
        end do
    end subroutine generate

    ! The solution lies in the first column of the grid; all but one of the terms of each sum are zero.
    subroutine gather_solution()
        integer :: i
        x = 0
        if (col == 0) then
            do i = 1, local_rows
                x(indxl2g(i, block, row, 0, grid_rows)) = right(i)
            end do
        end if
        call MPI_Allreduce(MPI_IN_PLACE, x, equations, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
    end subroutine gather_solution

    ! Some rows for each rank, whose entries are generated once more.
    real(real64) function backward_error()
        real(real64) :: largest(3), residual, row_norm, b, entry
        integer :: i, j
        largest = 0
        do i = rank + 1, equations, ranks
            b = entry_of(i, equations + 1)
            residual = b
            row_norm = 0
            do j = 1, equations
                entry = entry_of(i, j)
                residual = residual - entry*x(j)
                row_norm = row_norm + abs(entry)
            end do
            largest = max(largest, [abs(residual), row_norm, abs(b)])
        end do
        call MPI_Allreduce(MPI_IN_PLACE, largest, 3, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD)
        backward_error = largest(1)/(largest(2)*maxval(abs(x)) + largest(3))
    end function backward_error

end program psolve
