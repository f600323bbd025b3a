! The Fortran interface of libstandfast: lets a program direct its own checkpoints. Compile this file with the program, and
! link it with -lstandfast. standfast.h documents the calls; their names are those of the libckpt paper.
!
! Arrays must be contiguous: the compiler would pass a copy of a section that is not. Sizes are in bytes, as 32-bit or
! 64-bit integers. Each call takes an optional `status`, which becomes 0 or one of the errors of standfast.h.
module standfast
    use, intrinsic :: iso_c_binding, only: c_int, c_int32_t, c_int64_t, c_long, c_loc, c_ptr
    implicit none
    private
    public :: exclude_bytes, include_bytes, checkpoint_here, disable_checkpoints, enable_checkpoints
    public :: is_protected, next_checkpoint

    ! What the program promises about a region: it writes the region again before it reads it; it does not write to it.
    integer, parameter, public :: CKPT_DEAD = 1, CKPT_READONLY = 2
    ! The outcome of checkpoint_here().
    integer, parameter, public :: CKPT_NOT_TAKEN = 0, CKPT_TAKEN = 1, CKPT_RESTARTED = 2

    interface exclude_bytes
        module procedure exclude_bytes_int32, exclude_bytes_int64
    end interface
    interface include_bytes
        module procedure include_bytes_int32, include_bytes_int64
    end interface

    interface
        integer(c_int) function c_exclude(address, bytes, usage) bind(c, name='exclude_bytes')
            import :: c_int, c_long, c_ptr
            type(c_ptr), value :: address
            integer(c_long), value :: bytes
            integer(c_int), value :: usage
        end function c_exclude
        integer(c_int) function c_include(address, bytes) bind(c, name='include_bytes')
            import :: c_int, c_long, c_ptr
            type(c_ptr), value :: address
            integer(c_long), value :: bytes
        end function c_include
        integer(c_int) function c_checkpoint_here(generation) bind(c, name='standfast_checkpoint_here')
            import :: c_int, c_ptr
            type(c_ptr), value :: generation
        end function c_checkpoint_here
        integer(c_int) function c_disable() bind(c, name='standfast_disable')
            import :: c_int
        end function c_disable
        integer(c_int) function c_enable() bind(c, name='standfast_enable')
            import :: c_int
        end function c_enable
        integer(c_int) function c_is_protected() bind(c, name='standfast_is_protected')
            import :: c_int
        end function c_is_protected
        integer(c_int64_t) function c_next() bind(c, name='standfast_next')
            import :: c_int64_t
        end function c_next
    end interface

contains

    subroutine exclude_bytes_int32(region, bytes, usage, status)
        type(*), dimension(..), target, intent(in) :: region
        integer(c_int32_t), intent(in) :: bytes
        integer, intent(in) :: usage
        integer, intent(out), optional :: status
        call tell(c_exclude(c_loc(region), int(bytes, c_long), int(usage, c_int)), status)
    end subroutine exclude_bytes_int32

    subroutine exclude_bytes_int64(region, bytes, usage, status)
        type(*), dimension(..), target, intent(in) :: region
        integer(c_int64_t), intent(in) :: bytes
        integer, intent(in) :: usage
        integer, intent(out), optional :: status
        call tell(c_exclude(c_loc(region), int(bytes, c_long), int(usage, c_int)), status)
    end subroutine exclude_bytes_int64

    subroutine include_bytes_int32(region, bytes, status)
        type(*), dimension(..), target, intent(in) :: region
        integer(c_int32_t), intent(in) :: bytes
        integer, intent(out), optional :: status
        call tell(c_include(c_loc(region), int(bytes, c_long)), status)
    end subroutine include_bytes_int32

    subroutine include_bytes_int64(region, bytes, status)
        type(*), dimension(..), target, intent(in) :: region
        integer(c_int64_t), intent(in) :: bytes
        integer, intent(out), optional :: status
        call tell(c_include(c_loc(region), int(bytes, c_long)), status)
    end subroutine include_bytes_int64

    ! `status` becomes CKPT_NOT_TAKEN, CKPT_TAKEN, CKPT_RESTARTED or an error. `generation` becomes the checkpoint's
    ! number.
    subroutine checkpoint_here(status, generation)
        integer, intent(out), optional :: status
        integer(c_int64_t), intent(out), optional :: generation
        integer(c_int64_t), target :: number
        number = 0
        call tell(c_checkpoint_here(c_loc(number)), status)
        if (present(generation)) generation = number
    end subroutine checkpoint_here

    subroutine disable_checkpoints(status)
        integer, intent(out), optional :: status
        call tell(c_disable(), status)
    end subroutine disable_checkpoints

    subroutine enable_checkpoints(status)
        integer, intent(out), optional :: status
        call tell(c_enable(), status)
    end subroutine enable_checkpoints

    logical function is_protected()
        is_protected = c_is_protected() /= 0
    end function is_protected

    ! Returns the nanoseconds until the supervisor takes the next checkpoint by itself; -1 for never.
    integer(c_int64_t) function next_checkpoint()
        next_checkpoint = c_next()
    end function next_checkpoint

    subroutine tell(code, status)
        integer(c_int), intent(in) :: code
        integer, intent(out), optional :: status
        if (present(status)) status = code
    end subroutine tell

end module standfast
