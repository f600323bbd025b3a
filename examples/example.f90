! What the programs in Fortran share: arguments, random numbers that are the same everywhere, a checksum, and the verdict of
! a self-check. The same as example.h is for C.
module example
    use, intrinsic :: iso_fortran_env, only: int8, int64, real64, error_unit
    implicit none
    private
    public :: argument, mixed, random, checksum, check, int64, real64

    integer(int64), parameter, public :: checksum_start = int(z'4bf29ce484222325', int64)
    integer(int64), parameter :: low_half = int(z'ffffffff', int64)

contains

    ! The argument at `place`, or `otherwise` where there are fewer.
    integer function argument(place, otherwise, least, most)
        integer, intent(in) :: place, otherwise, least, most
        character(len=32) :: word
        integer :: status
        argument = otherwise
        if (place > command_argument_count()) return
        call get_command_argument(place, word)
        read (word, *, iostat=status) argument
        if (status /= 0 .or. argument < least .or. argument > most) then
            write (error_unit, '(3a, i0, a, i0)') 'argument ', trim(word), ' is not a number from ', least, ' to ', most
            stop 2
        end if
    end function argument

    ! A number that depends on nothing but `index`: four rounds of a Feistel network, whose halves are hashed by
    ! multiplications that do not overflow.
    pure integer(int64) function mixed(index)
        integer(int64), intent(in) :: index
        integer(int64) :: left, right, swap
        integer :: round
        left = shiftr(index, 32)
        right = iand(index, low_half)
        do round = 1, 4
            swap = right
            right = ieor(left, hashed(right + round*int(z'9e3779b9', int64)))
            left = swap
        end do
        mixed = ior(shiftl(left, 32), right)
    end function mixed

    ! Of 32 bits, by two odd factors below 2**31.
    pure integer(int64) function hashed(number)
        integer(int64), intent(in) :: number
        hashed = iand(number, low_half)
        hashed = iand(ieor(hashed, shiftr(hashed, 16))*int(z'7feb352d', int64), low_half)
        hashed = iand(ieor(hashed, shiftr(hashed, 15))*int(z'5bd1e995', int64), low_half)
        hashed = ieor(hashed, shiftr(hashed, 16))
    end function hashed

    ! A number from 0 to below 1.
    pure real(real64) function random(index)
        integer(int64), intent(in) :: index
        random = real(shiftr(mixed(index), 11), real64)/2.0_real64**53
    end function random

    ! Goes on from `hash` over the bits of numbers, each of which changes it by a bijection: one flipped bit anywhere shows.
    pure integer(int64) function checksum(hash, numbers)
        integer(int64), intent(in) :: hash
        real(real64), intent(in) :: numbers(:)
        integer :: at
        checksum = hash
        do at = 1, size(numbers)
            checksum = ieor(checksum, transfer(numbers(at), checksum))
            checksum = ieor(checksum, shiftl(checksum, 13))
            checksum = ieor(checksum, shiftr(checksum, 7))
            checksum = ieor(checksum, shiftl(checksum, 17))
        end do
    end function checksum

    ! Prints what a self-check found; a program whose result is not true ends with status 1.
    subroutine check(what, found, most)
        character(len=*), intent(in) :: what
        real(real64), intent(in) :: found, most
        ! Not found > most, which a NaN would pass.
        if (found <= most) then
            print '(3a, es9.2, a, es9.2, a)', 'check ', what, ':', found, ', at most', most, ': ok'
        else
            print '(3a, es9.2, a, es9.2, a)', 'check ', what, ':', found, ', at most', most, ': WRONG'
            flush (6)
            stop 1
        end if
        flush (6)
    end subroutine check

end module example
