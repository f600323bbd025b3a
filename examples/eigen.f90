! eigen: the eigenvalues of a general complex matrix.
!
! EIGEN of "Memory Exclusion" (1996): LAPACK's QR algorithm, which works column by column and changes almost all of the matrix
! each time. The paper has it as a program to which memory exclusion brings nothing: it has no directives.
!
! Self-checks: the eigenvalues of a small circulant matrix, which are the Fourier transform of its first row; and, for the
! large one, their sum and the sum of their squares, which are the traces of A and of A squared.
!
! usage: eigen [SIZE (600)]
program eigen
    use example
    implicit none
    complex(real64), allocatable :: matrix(:, :), values(:)
    complex(real64) :: trace, trace_of_square
    real(real64) :: norm
    integer :: n, row, col
    interface
        subroutine zgeev(jobvl, jobvr, n, a, lda, w, vl, ldvl, vr, ldvr, work, lwork, rwork, info)
            import :: real64
            character :: jobvl, jobvr
            integer :: n, lda, ldvl, ldvr, lwork, info
            complex(real64) :: a(lda, *), w(*), vl(ldvl, *), vr(ldvr, *), work(*)
            real(real64) :: rwork(*)
        end subroutine zgeev
    end interface

    n = argument(1, 600, 2, 32768)
    call check('eigenvalues of a circulant matrix', circulant_error(32), 1e-12_real64)

    allocate (matrix(n, n))
    do col = 1, n
        do row = 1, n
            matrix(row, col) = entry_of(row, col)
        end do
    end do
    norm = sqrt(sum(abs(matrix)**2))
    trace = sum([(matrix(row, row), row=1, n)])
    trace_of_square = sum([(sum(matrix(row, :)*matrix(:, row)), row=1, n)])
    values = eigenvalues(matrix)
    call check('sum of eigenvalues against the trace', abs(sum(values) - trace)/norm, 1e-12_real64)
    call check('sum of squares against the trace', abs(sum(values**2) - trace_of_square)/norm**2, 1e-12_real64)
    print '(a, z16.16)', 'checksum ', checksum(checksum(checksum_start, real(values)), aimag(values))

contains

    complex(real64) function entry_of(row, col)
        integer, intent(in) :: row, col
        integer(int64) :: index
        index = 2*(int(col, int64)*65536 + row)
        entry_of = cmplx(random(index), random(index + 1), real64) - (0.5_real64, 0.5_real64)
    end function entry_of

    ! Overwrites the matrix.
    function eigenvalues(matrix) result(values)
        complex(real64), intent(inout) :: matrix(:, :)
        complex(real64), allocatable :: values(:), work(:)
        complex(real64) :: none(1, 1)
        real(real64), allocatable :: real_work(:)
        integer :: n, info
        n = size(matrix, 1)
        allocate (values(n), work(66*n), real_work(2*n))
        call zgeev('N', 'N', n, matrix, n, values, none, 1, none, 1, work, size(work), real_work, info)
        if (info /= 0) error stop 'the QR algorithm does not converge'
    end function eigenvalues

    ! The largest distance of an eigenvalue, as it is known, from the nearest one that was found and is not taken yet.
    real(real64) function circulant_error(n)
        integer, intent(in) :: n
        real(real64), parameter :: turn = 8*atan(1.0_real64)
        complex(real64) :: first(0:n - 1), matrix(n, n), found(n), known
        logical :: is_free(n)
        integer :: row, col, k, nearest
        first = [(entry_of(1, col), col=1, n)]
        do col = 1, n
            do row = 1, n
                matrix(row, col) = first(modulo(col - row, n))
            end do
        end do
        found = eigenvalues(matrix)
        is_free = .true.
        circulant_error = 0
        do k = 0, n - 1
            known = sum(first*[(exp(cmplx(0, turn*modulo(k*col, n)/n, real64)), col=0, n - 1)])
            nearest = minloc(abs(found - known), dim=1, mask=is_free)
            is_free(nearest) = .false.
            circulant_error = max(circulant_error, abs(found(nearest) - known))
        end do
    end function circulant_error

end program eigen
