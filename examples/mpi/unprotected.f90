! In the place of Standfast's module: nothing is registered and no checkpoint is taken. What stands in Standfast's own place is
! ../../bindings/mpi/fortran/standfast_group.f90.
module standfast_group
    use mpi_f08, only: MPI_Comm
    implicit none

contains

    subroutine standfast_start(comm)
        type(MPI_Comm), intent(in) :: comm
        if (comm%mpi_val == -huge(0)) error stop 'there is no such communicator'
    end subroutine standfast_start

    subroutine standfast_protect(id, region)
        integer, intent(in) :: id
        type(*), dimension(..), intent(in) :: region
        if (id < 0 .and. rank(region) < 0) error stop 'there is no such region'
    end subroutine standfast_protect

    subroutine standfast_protect_all(first, a, b, c, d, e, f, g, h)
        integer, intent(in) :: first
        type(*), dimension(..), intent(in) :: a
        type(*), dimension(..), intent(in), optional :: b, c, d, e, f, g, h
        call standfast_protect(first, a)
        if (present(b)) call standfast_protect(first, b)
        if (present(c)) call standfast_protect(first, c)
        if (present(d)) call standfast_protect(first, d)
        if (present(e)) call standfast_protect(first, e)
        if (present(f)) call standfast_protect(first, f)
        if (present(g)) call standfast_protect(first, g)
        if (present(h)) call standfast_protect(first, h)
    end subroutine standfast_protect_all

    logical function standfast_restored()
        standfast_restored = .false.
    end function standfast_restored

    logical function standfast_due()
        standfast_due = .false.
    end function standfast_due

    subroutine standfast_checkpoint()
    end subroutine standfast_checkpoint

    subroutine standfast_finish()
    end subroutine standfast_finish

end module standfast_group
