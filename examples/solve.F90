! solve: several systems of linear equations, one after the other, each with its solution written to disk.
!
! SOLVE of the papers of 1995 and 1996, a driver of LAPACK's LU decomposition. Between two systems the matrix is dead: the
! next one is generated again. Incremental checkpoints save nothing here, as all of it has been written.
!
! Self-check: the normwise backward error of each solution, |b - A x| / (|A| |x| + |b|) (Rigal and Gaches 1967).
!
! Leaves solve.solutions in the current folder.         usage: solve [EQUATIONS (1000) [SYSTEMS (7)]]
program solve
    use example
#ifdef CKPT
    use standfast
#endif
    implicit none
    ! The last column is the right-hand side, and then the solution.
    real(real64), allocatable :: system(:, :)
    integer, allocatable :: pivots(:)
    integer(int64) :: hash
    integer :: equations, systems, number, info, file
    real(real64) :: worst
    interface
        subroutine dgesv(n, nrhs, a, lda, ipiv, b, ldb, info)
            import :: real64
            integer :: n, nrhs, lda, ipiv(*), ldb, info
            real(real64) :: a(lda, *), b(ldb, *)
        end subroutine dgesv
    end interface

    equations = argument(1, 1000, 1, 32768)
    systems = argument(2, 7, 1, 1000000)
    allocate (system(equations, equations + 1), pivots(equations))
    open (newunit=file, file='solve.solutions', status='replace')
    hash = checksum_start
    worst = 0
    do number = 1, systems
        call generate(system, number)
        call dgesv(equations, 1, system, equations, pivots, system(:, equations + 1), equations, info)
        if (info /= 0) error stop 'a singular matrix'
        write (file, '(z16.16)') system(:, equations + 1)
        flush (file)
        worst = max(worst, backward_error(system(:, equations + 1), number))
        hash = checksum(hash, system(:, equations + 1))
        print '(a, i0, a, i0)', 'system ', number, ' of ', systems
        flush (6)
#ifdef CKPT
        call exclude_bytes(system, 8*size(system), CKPT_DEAD)
        call checkpoint_here()
        call include_bytes(system, 8*size(system))
#endif
    end do
    close (file)
    call check('backward error of a solution', worst, 1e-13_real64)
    print '(a, z16.16)', 'checksum ', hash

contains

    real(real64) function entry_of(number, row, col)
        integer, intent(in) :: number, row, col
        entry_of = random((int(number, int64)*65536 + col)*65536 + row) - 0.5_real64
    end function entry_of

    subroutine generate(system, number)
        real(real64), intent(out) :: system(:, :)
        integer, intent(in) :: number
        integer :: row, col
        do col = 1, equations + 1
            do row = 1, equations
                system(row, col) = entry_of(number, row, col)
            end do
        end do
    end subroutine generate

    ! The decomposition has overwritten the matrix, so that its entries are generated once more.
    real(real64) function backward_error(x, number)
        real(real64), intent(in) :: x(:)
        integer, intent(in) :: number
        real(real64) :: residual, row_norm, norm, largest, b, entry
        integer :: row, col
        norm = 0
        largest = 0
        backward_error = 0
        do row = 1, equations
            b = entry_of(number, row, equations + 1)
            residual = b
            row_norm = 0
            do col = 1, equations
                entry = entry_of(number, row, col)
                residual = residual - entry*x(col)
                row_norm = row_norm + abs(entry)
            end do
            backward_error = max(backward_error, abs(residual))
            norm = max(norm, row_norm)
            largest = max(largest, abs(b))
        end do
        backward_error = backward_error/(norm*maxval(abs(x)) + largest)
    end function backward_error

end program solve
