! The Fortran interface of libstandfast_group: a program's processes keep each other's registered memory. It comes as
! source, since .mod files differ between compilers and between MPIs. Compile it with the program's mpifort, compile
! standfast_group_fortran.c with the mpicc of the same MPI, and link with -lstandfast_group.
!
! standfast_group.h documents the calls. Each process has one group. A call that fails prints the reason and ends all
! processes, so that no error goes unnoticed. Registered data must be contiguous and must not move: saved, allocated, or a
! pointer's target.
module standfast_group
    use, intrinsic :: iso_c_binding, only: c_double, c_int, c_int64_t
    use mpi_f08, only: MPI_Comm
    implicit none
    private
    public :: standfast_start, standfast_join, standfast_protect, standfast_protect_all, standfast_unprotect
    public :: standfast_recorded, standfast_restore, standfast_restored, standfast_due, standfast_checkpoint, standfast_finish

    ! How a process joins the job.
    integer, parameter, public :: STANDFAST_NEW = 0, STANDFAST_SURVIVOR = 1, STANDFAST_REPLACEMENT = 2

    ! Whether the program goes back to an epoch that it has yet to restore.
    logical, save :: goes_back = .false.

    interface standfast_start
        module procedure start_f08, start_integer
    end interface

    interface standfast_join
        module procedure join_f08, join_integer
    end interface

    interface
        integer(c_int) function c_join(comm) bind(c, name='standfast_fortran_join')
            import :: c_int
            integer(c_int), value :: comm
        end function c_join
        subroutine c_protect(id, region) bind(c, name='standfast_fortran_protect')
            import :: c_int64_t
            integer(c_int64_t), value :: id
            type(*), dimension(..), intent(in) :: region
        end subroutine c_protect
        subroutine c_unprotect(id) bind(c, name='standfast_fortran_unprotect')
            import :: c_int64_t
            integer(c_int64_t), value :: id
        end subroutine c_unprotect
        integer(c_int64_t) function c_recorded(id) bind(c, name='standfast_fortran_recorded')
            import :: c_int64_t
            integer(c_int64_t), value :: id
        end function c_recorded
        subroutine c_restore() bind(c, name='standfast_fortran_restore')
        end subroutine c_restore
        integer(c_int) function c_due(seconds) bind(c, name='standfast_fortran_due')
            import :: c_double, c_int
            real(c_double), value :: seconds
        end function c_due
        integer(c_int) function c_checkpoint() bind(c, name='standfast_fortran_checkpoint')
            import :: c_int
        end function c_checkpoint
        subroutine c_finish() bind(c, name='standfast_fortran_finish')
        end subroutine c_finish
    end interface

contains

    ! Collective. Joins the job and returns how this process joined it.
    integer function join_f08(comm)
        type(MPI_Comm), intent(in) :: comm
        join_f08 = join_integer(comm%mpi_val)
    end function join_f08

    integer function join_integer(comm)
        integer, intent(in) :: comm
        join_integer = c_join(int(comm, c_int))
        goes_back = join_integer /= STANDFAST_NEW
    end function join_integer

    ! Collective. Joins the job, for programs that call `standfast_restored` later.
    subroutine start_f08(comm)
        type(MPI_Comm), intent(in) :: comm
        call start_integer(comm%mpi_val)
    end subroutine start_f08

    subroutine start_integer(comm)
        integer, intent(in) :: comm
        integer :: joined
        joined = join_integer(comm)
    end subroutine start_integer

    ! Registers an array or a scalar under a number, with its present length.
    subroutine standfast_protect(id, region)
        integer, intent(in) :: id
        type(*), dimension(..), intent(in) :: region
        call c_protect(int(id, c_int64_t), region)
    end subroutine standfast_protect

    ! Registers several arrays or scalars under the numbers from `first` on.
    subroutine standfast_protect_all(first, a, b, c, d, e, f, g, h)
        integer, intent(in) :: first
        type(*), dimension(..), intent(in) :: a
        type(*), dimension(..), intent(in), optional :: b, c, d, e, f, g, h
        call standfast_protect(first, a)
        if (present(b)) call standfast_protect(first + 1, b)
        if (present(c)) call standfast_protect(first + 2, c)
        if (present(d)) call standfast_protect(first + 3, d)
        if (present(e)) call standfast_protect(first + 4, e)
        if (present(f)) call standfast_protect(first + 5, f)
        if (present(g)) call standfast_protect(first + 6, g)
        if (present(h)) call standfast_protect(first + 7, h)
    end subroutine standfast_protect_all

    subroutine standfast_unprotect(id)
        integer, intent(in) :: id
        call c_unprotect(int(id, c_int64_t))
    end subroutine standfast_unprotect

    ! Returns the length in bytes of a number's region in the epoch that the job goes back to; negative if it has none.
    integer(c_int64_t) function standfast_recorded(id)
        integer, intent(in) :: id
        standfast_recorded = c_recorded(int(id, c_int64_t))
    end function standfast_recorded

    ! Collective. Fills the registered memory from the epoch.
    subroutine standfast_restore()
        call c_restore()
        goes_back = .false.
    end subroutine standfast_restore

    ! Collective. If the program goes back to an epoch, fills the registered memory from it. Returns whether it goes back.
    logical function standfast_restored()
        standfast_restored = goes_back
        if (goes_back) call standfast_restore()
    end function standfast_restored

    ! Collective. Reports whether `seconds` seconds have passed since the last checkpoint. The default is that of
    ! `standfast group run --interval`, or 60.
    logical function standfast_due(seconds)
        real(c_double), intent(in), optional :: seconds
        real(c_double) :: interval
        interval = -1
        if (present(seconds)) interval = seconds
        standfast_due = c_due(interval) > 0
    end function standfast_due

    ! Collective, and no message of the program may be under way. If the checkpoint was abandoned, `taken` is false and the
    ! program continues.
    subroutine standfast_checkpoint(taken)
        logical, intent(out), optional :: taken
        integer(c_int) :: result
        result = c_checkpoint()
        if (present(taken)) taken = result == 0
    end subroutine standfast_checkpoint

    ! Collective. Ends the job; the program is done.
    subroutine standfast_finish()
        call c_finish()
    end subroutine standfast_finish

end module standfast_group
