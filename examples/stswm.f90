! stswm: the shallow water equations on a rotating sphere, by the spectral transform method.
!
! WATER of the papers of 1995 and STSWM of 1996: the tables of Legendre functions are most of the memory, are made at the
! start and are read-only for ever, so that incremental checkpoints leave them out by themselves. There are no directives.
!
! Self-checks: mass, energy and potential enstrophy at the end against the start; test case 2 is a steady solution, so that
! its depth must be that of the start.
!
! usage: stswm [TRUNCATION (170) [HOURS (6) [TEST CASE: 2 or 5 (5)]]]
program stswm
    use example
    use shallow_water
    implicit none
    complex(real64), allocatable :: by_waves(:, :, :), by_latitudes(:, :, :), products(:, :, :), back(:, :, :)
    real(real64) :: start(3), finish(3), seconds
    integer :: hours, test_case, step, steps
    integer(int64) :: hash

    call set_up(argument(3, 5, 2, 5), argument(1, 170, 1, 682), 0, 1)
    hours = argument(2, 6, 1, 1000)
    test_case = argument(3, 5, 2, 5)
    steps = ceiling(hours*3600*truncation/50000.0)
    seconds = hours*3600.0_real64/steps
    allocate (by_waves(fields_out, latitudes, truncation + 1), by_latitudes(fields_out, 0:truncation, latitudes))
    allocate (back(fields_back, latitudes, truncation + 1), products(fields_back, 0:truncation, latitudes))

    call start_fields(products)
    call to_waves(products, back)
    call analyze_start(back)
    start = totals()
    do step = 1, steps
        call synthesize(by_waves)
        call to_latitudes(by_waves, by_latitudes)
        call multiply(by_latitudes, products)
        call to_waves(products, back)
        call advance(back, seconds)
        if (mod(step, max(1, steps/20)) == 0) call tell(step)
    end do
    finish = totals()
    call check('change of mass', abs(finish(1)/start(1) - 1), 1e-13_real64)
    call check('change of energy', abs(finish(2)/start(2) - 1), 1e-5_real64)
    call check('change of potential enstrophy', abs(finish(3)/start(3) - 1), 1e-4_real64)
    if (test_case == 2) call check('error of the depth', height_error(by_latitudes), 1e-11_real64)
    hash = checksum_of(checksum_of(checksum_of(checksum_start, vorticity), divergence), geopotential)
    print '(a, z16.16)', 'checksum ', hash

contains

    subroutine tell(step)
        integer, intent(in) :: step
        print '(a, i0, a, i0)', 'step ', step, ' of ', steps
        flush (6)
    end subroutine tell

    ! With one rank all latitudes and all waves are here; only that the latitudes come in pairs of north and south.
    subroutine to_latitudes(waves, along_latitudes)
        complex(real64), intent(in) :: waves(:, :, :)
        complex(real64), intent(out) :: along_latitudes(:, :, :)
        integer :: at, wave
        do at = 1, latitudes
            do wave = 1, truncation + 1
                along_latitudes(:, wave, at) = waves(:, my_latitudes(at), wave)
            end do
        end do
    end subroutine to_latitudes

    subroutine to_waves(along_latitudes, waves)
        complex(real64), intent(in) :: along_latitudes(:, :, :)
        complex(real64), intent(out) :: waves(:, :, :)
        integer :: at, wave
        do wave = 1, truncation + 1
            do at = 1, latitudes
                waves(:, my_latitudes(at), wave) = along_latitudes(:, wave, at)
            end do
        end do
    end subroutine to_waves

    ! Of the newest state.
    function totals()
        real(real64) :: totals(3), parts(3, latitudes)
        call synthesize(by_waves)
        call to_latitudes(by_waves, by_latitudes)
        call invariants(by_latitudes, parts)
        totals = sum(parts, dim=2)
    end function totals

    pure integer(int64) function checksum_of(hash, field)
        integer(int64), intent(in) :: hash
        complex(real64), intent(in) :: field(:)
        checksum_of = checksum(checksum(hash, real(field)), aimag(field))
    end function checksum_of

end program stswm
