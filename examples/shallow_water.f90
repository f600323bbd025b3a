! The shallow water equations on a rotating sphere by the spectral transform method: what STSWM and PSTSWM share.
!
! Vorticity, divergence and geopotential are sums of spherical harmonics, in triangular truncation. Each time step turns them
! into values on a grid of Gaussian latitudes, multiplies there, and turns the products back: a Fourier transform along each
! latitude, a Legendre transform by Gaussian quadrature along the meridians (Hack and Jakob, NCAR TN-343, 1992). In time it
! is a leapfrog with an implicit treatment of gravity waves and Asselin's filter. There is no diffusion: it is for days, not
! for months.
!
! Test cases of Williamson et al. (J. Comput. Phys. 102, 1992): 2, a flow in balance around an axis that lies at 45 degrees,
! which must stay as it is; 5, a zonal flow over a mountain.
!
! A rank holds some zonal wave numbers, each with all latitudes, and some latitudes, each with all wave numbers. In between
! lies a transposition, which is the caller's: a copy where there is one rank. No sum depends on the number of ranks.
!
!     spectral --synthesize--> by waves --transpose--> by latitudes --multiply--> --transpose--> by waves --advance--> spectral
module shallow_water
    use, intrinsic :: iso_fortran_env, only: real64
    implicit none
    private
    public :: set_up, share_of, latitudes_of, analyze_start, synthesize, multiply, advance, start_fields, each_field
    public :: invariants, height_error

    real(real64), parameter :: pi = 4*atan(1.0_real64), radius = 6.37122e6_real64, omega = 7.292e-5_real64
    real(real64), parameter :: gravity = 9.80616_real64, filter = 0.02_real64

    ! What comes from the spectral fields, and the products that go back.
    integer, parameter, public :: fields_out = 4, fields_back = 5
    integer, parameter :: of_vorticity = 1, of_geopotential = 2, of_u = 3, of_v = 4

    integer, public, protected :: truncation, longitudes, latitudes
    integer, public, protected, allocatable :: my_waves(:), my_latitudes(:)
    ! Spectral fields of the newest time step. That of wave w and degree n lies at at_wave(w's index) + n - w.
    complex(real64), public, protected, allocatable :: vorticity(:), divergence(:), geopotential(:)

    integer :: test_case
    real(real64) :: mean_geopotential, wind, tilt
    complex(real64), allocatable :: old_vorticity(:), old_divergence(:), old_geopotential(:), mountain(:)
    integer, allocatable :: at_wave(:)
    real(real64), allocatable :: mu(:), weight(:)
    ! Normalized associated Legendre functions, and (1 - mu^2) times their derivatives, at northern latitudes. They are the
    ! most of the memory, and do not change once they are made.
    real(real64), allocatable :: legendre(:, :), slope(:, :)
    ! On this rank's latitudes: the sine of the latitude with respect to the axis, and the geopotential of the ground.
    real(real64), allocatable :: rise(:, :), ground(:, :)
    complex(real64), allocatable :: turn(:)
    integer, allocatable :: reversed(:)
    logical :: is_first_step

contains

    ! Which of `count` things, dealt out in turns, a rank holds.
    pure function share_of(rank, ranks, count) result(mine)
        integer, intent(in) :: rank, ranks, count
        integer, allocatable :: mine(:)
        integer :: at
        mine = [(at, at=rank + 1, count, ranks)]
    end function share_of

    ! The latitudes of a rank: each of the north goes with its mirror in the south.
    pure function latitudes_of(rank, ranks) result(mine)
        integer, intent(in) :: rank, ranks
        integer, allocatable :: mine(:)
        integer :: pair
        mine = [(pair, latitudes + 1 - pair, pair=rank + 1, latitudes/2, ranks)]
    end function latitudes_of

    subroutine set_up(case_number, new_truncation, rank, ranks)
        integer, intent(in) :: case_number, new_truncation, rank, ranks
        integer :: at, bits
        test_case = case_number
        truncation = new_truncation
        ! Products of two sums must be without aliasing, and the Fourier transform wants a power of two.
        bits = 2
        do while (2**bits < 3*truncation + 1)
            bits = bits + 1
        end do
        longitudes = 2**bits
        latitudes = longitudes/2
        allocate (my_waves, source=share_of(rank, ranks, truncation + 1) - 1)
        allocate (my_latitudes, source=latitudes_of(rank, ranks))
        reversed = [(reverse(at, bits), at=0, longitudes - 1)]
        turn = [(exp(cmplx(0, -2*pi*at/longitudes, real64)), at=0, longitudes/2 - 1)]
        call place_latitudes()
        call tabulate_legendre()
        call set_flow()
    end subroutine set_up

    ! Gaussian latitudes and weights, by Newton's method on the Legendre polynomial.
    subroutine place_latitudes()
        integer :: at, k, round
        real(real64) :: x, p, before, swap, derivative
        allocate (mu(latitudes), weight(latitudes))
        do at = 1, latitudes
            x = cos(pi*(at - 0.25_real64)/(latitudes + 0.5_real64))
            do round = 1, 10
                before = 1
                p = x
                do k = 2, latitudes
                    swap = p
                    p = ((2*k - 1)*x*p - (k - 1)*before)/k
                    before = swap
                end do
                derivative = latitudes*(before - x*p)/(1 - x*x)
                x = x - p/derivative
            end do
            mu(at) = x
            weight(at) = 2/((1 - x*x)*derivative**2)
        end do
    end subroutine place_latitudes

    subroutine tabulate_legendre()
        integer :: index, pair, m, n, wave
        real(real64) :: p(-1:truncation + 1)
        allocate (at_wave(size(my_waves) + 1))
        at_wave(1) = 1
        do index = 1, size(my_waves)
            at_wave(index + 1) = at_wave(index) + truncation - my_waves(index) + 1
        end do
        allocate (legendre(at_wave(size(at_wave)) - 1, latitudes/2), slope(at_wave(size(at_wave)) - 1, latitudes/2))
        do pair = 1, latitudes/2
            do index = 1, size(my_waves)
                m = my_waves(index)
                p = 0
                p(m) = sqrt(0.5_real64)
                do wave = 1, m
                    p(m) = p(m)*sqrt((2*wave + 1)/(2.0_real64*wave)*(1 - mu(pair)**2))
                end do
                do n = m + 1, truncation + 1
                    p(n) = (mu(pair)*p(n - 1) - epsilon_of(n - 1, m)*p(n - 2))/epsilon_of(n, m)
                end do
                do n = m, truncation
                    legendre(at_wave(index) + n - m, pair) = p(n)
                    slope(at_wave(index) + n - m, pair) = (n + 1)*epsilon_of(n, m)*p(n - 1) - n*epsilon_of(n + 1, m)*p(n + 1)
                end do
            end do
        end do
    end subroutine tabulate_legendre

    pure real(real64) function epsilon_of(n, m)
        integer, intent(in) :: n, m
        epsilon_of = sqrt(max(0.0_real64, (real(n, real64)**2 - real(m, real64)**2)/(4*real(n, real64)**2 - 1)))
    end function epsilon_of

    subroutine set_flow()
        integer :: coefficients, at, longitude
        coefficients = at_wave(size(at_wave)) - 1
        allocate (vorticity(coefficients), divergence(coefficients), geopotential(coefficients), mountain(coefficients))
        select case (test_case)
        case (2)
            tilt = pi/4
            wind = 2*pi*radius/(12*86400)
            mean_geopotential = 2.94e4_real64
        case (5)
            tilt = 0
            wind = 20
            mean_geopotential = 5960*gravity
        case default
            error stop 'there are test cases 2 and 5'
        end select
        allocate (rise(longitudes, size(my_latitudes)), ground(longitudes, size(my_latitudes)))
        do at = 1, size(my_latitudes)
            do longitude = 1, longitudes
                rise(longitude, at) = rise_at(my_latitudes(at), longitude)
                ground(longitude, at) = mountain_at(my_latitudes(at), longitude)
            end do
        end do
        is_first_step = .true.
    end subroutine set_flow

    ! The sine of the latitude with respect to the axis of the flow and of the rotation.
    pure real(real64) function rise_at(latitude, longitude)
        integer, intent(in) :: latitude, longitude
        real(real64) :: across
        across = cos(2*pi*(longitude - 1)/longitudes)*sqrt(1 - mu(latitude)**2)
        rise_at = mu(latitude)*cos(tilt) - across*sin(tilt)
    end function rise_at

    ! Geopotential of the free surface above its mean on a latitude and its mirror: the flow is in balance with it.
    pure function surface(at)
        integer, intent(in) :: at
        real(real64) :: surface(longitudes, 2)
        surface = -(radius*omega*wind + wind**2/2)*rise(:, at:at + 1)**2
    end function surface

    pure real(real64) function mountain_at(latitude, longitude)
        integer, intent(in) :: latitude, longitude
        real(real64), parameter :: extent = pi/9
        real(real64) :: distance
        mountain_at = 0
        if (test_case /= 5) return
        distance = hypot(2*pi*(longitude - 1)/longitudes - 1.5_real64*pi, asin(mu(latitude)) - pi/6)
        mountain_at = gravity*2000*(1 - min(extent, distance)/extent)
    end function mountain_at

    ! The state at the start, on this rank's latitudes: vorticity, depth without its mean, and the mountain.
    subroutine start_fields(by_latitudes)
        complex(real64), intent(out) :: by_latitudes(:, 0:, :)
        integer :: at
        by_latitudes = 0
        do at = 1, size(my_latitudes), 2
            call to_waves(2*wind/radius*rise(:, at:at + 1), by_latitudes(1, :, at:at + 1))
            call to_waves(surface(at) - ground(:, at:at + 1), by_latitudes(2, :, at:at + 1))
            call to_waves(ground(:, at:at + 1), by_latitudes(3, :, at:at + 1))
        end do
    end subroutine start_fields

    ! Takes the state at the start from those fields, after the transposition.
    subroutine analyze_start(by_waves)
        complex(real64), intent(in) :: by_waves(:, :, :)
        complex(real64) :: even(3), odd(3)
        integer :: index, pair, n, at
        vorticity = 0
        geopotential = 0
        mountain = 0
        divergence = 0
        do index = 1, size(my_waves)
            do pair = 1, latitudes/2
                even = weight(pair)*(by_waves(1:3, pair, index) + by_waves(1:3, latitudes + 1 - pair, index))
                odd = weight(pair)*(by_waves(1:3, pair, index) - by_waves(1:3, latitudes + 1 - pair, index))
                do n = my_waves(index), truncation
                    at = at_wave(index) + n - my_waves(index)
                    if (mod(n - my_waves(index), 2) == 1) then
                        vorticity(at) = vorticity(at) + odd(1)*legendre(at, pair)
                        geopotential(at) = geopotential(at) + odd(2)*legendre(at, pair)
                        mountain(at) = mountain(at) + odd(3)*legendre(at, pair)
                    else
                        vorticity(at) = vorticity(at) + even(1)*legendre(at, pair)
                        geopotential(at) = geopotential(at) + even(2)*legendre(at, pair)
                        mountain(at) = mountain(at) + even(3)*legendre(at, pair)
                    end if
                end do
            end do
        end do
        old_vorticity = vorticity
        old_divergence = divergence
        old_geopotential = geopotential
    end subroutine analyze_start

    ! Spectral fields to Fourier coefficients at all latitudes, for this rank's waves. U and V are the wind times cos(latitude).
    subroutine synthesize(by_waves)
        complex(real64), intent(out) :: by_waves(:, :, :)
        complex(real64) :: plain(fields_out, 0:truncation), sloped(fields_out, 0:truncation)
        complex(real64) :: even(fields_out), odd(fields_out), stream, potential, along
        integer :: index, pair, m, n, at
        do index = 1, size(my_waves)
            m = my_waves(index)
            along = cmplx(0, m, real64)/radius
            do n = m, truncation
                at = at_wave(index) + n - m
                stream = -radius**2/max(1, n*(n + 1))*vorticity(at)
                potential = -radius**2/max(1, n*(n + 1))*divergence(at)
                if (n == 0) stream = 0
                if (n == 0) potential = 0
                plain(:, n) = [vorticity(at), geopotential(at), along*potential, along*stream]
                sloped(:, n) = [(0.0_real64, 0.0_real64), (0.0_real64, 0.0_real64), -stream/radius, potential/radius]
            end do
            do pair = 1, latitudes/2
                even = 0
                odd = 0
                do n = m, truncation, 2
                    at = at_wave(index) + n - m
                    even = even + plain(:, n)*legendre(at, pair)
                    odd(of_u:) = odd(of_u:) + sloped(of_u:, n)*slope(at, pair)
                end do
                do n = m + 1, truncation, 2
                    at = at_wave(index) + n - m
                    odd = odd + plain(:, n)*legendre(at, pair)
                    even(of_u:) = even(of_u:) + sloped(of_u:, n)*slope(at, pair)
                end do
                by_waves(:, pair, index) = even + odd
                by_waves(:, latitudes + 1 - pair, index) = even - odd
            end do
        end do
    end subroutine synthesize

    ! On this rank's latitudes: fields to the grid, their products, and back to Fourier coefficients.
    subroutine multiply(fields, products)
        complex(real64), intent(in) :: fields(:, 0:, :)
        complex(real64), intent(out) :: products(:, 0:, :)
        real(real64), dimension(longitudes, 2) :: absolute, depth, u, v
        integer :: at
        do at = 1, size(my_latitudes), 2
            call to_grid(fields(of_vorticity, :, at:at + 1), absolute)
            call to_grid(fields(of_geopotential, :, at:at + 1), depth)
            call to_grid(fields(of_u, :, at:at + 1), u)
            call to_grid(fields(of_v, :, at:at + 1), v)
            absolute = absolute + 2*omega*rise(:, at:at + 1)
            call to_waves(u*absolute, products(1, :, at:at + 1))
            call to_waves(v*absolute, products(2, :, at:at + 1))
            call to_waves(u*depth, products(3, :, at:at + 1))
            call to_waves(v*depth, products(4, :, at:at + 1))
            call to_waves((u*u + v*v)/(2*(1 - mu(my_latitudes(at))**2)), products(5, :, at:at + 1))
        end do
    end subroutine multiply

    ! Products by waves to the tendencies of the spectral fields, and one step of `seconds`.
    subroutine advance(products, seconds)
        complex(real64), intent(in) :: products(:, :, :)
        real(real64), intent(in) :: seconds
        complex(real64), dimension(0:truncation) :: turning, parting, filling
        complex(real64) :: north(fields_back), south(fields_back), sums(fields_back), differences(fields_back), along
        real(real64) :: area
        integer :: index, pair, m
        do index = 1, size(my_waves)
            m = my_waves(index)
            along = cmplx(0, m, real64)
            turning = 0
            parting = 0
            filling = 0
            do pair = 1, latitudes/2
                area = weight(pair)/(radius*(1 - mu(pair)**2))
                north = products(:, pair, index)
                south = products(:, latitudes + 1 - pair, index)
                sums = [area*(north(1:4) + south(1:4)), weight(pair)*(north(5) + south(5))]
                differences = [area*(north(1:4) - south(1:4)), weight(pair)*(north(5) - south(5))]
                call add_terms(index, pair, 0, along, sums, differences, turning, parting, filling)
                call add_terms(index, pair, 1, along, differences, sums, turning, parting, filling)
            end do
            call step_wave(index, turning, parting, filling, seconds)
        end do
        is_first_step = .false.
    end subroutine advance

    ! What a pair of latitudes adds to the degrees of one parity. A derivative along the meridian goes over to the Legendre
    ! function by partial integration.
    subroutine add_terms(index, pair, parity, along, same, other, turning, parting, filling)
        integer, intent(in) :: index, pair, parity
        complex(real64), intent(in) :: along, same(fields_back), other(fields_back)
        complex(real64), dimension(0:truncation), intent(inout) :: turning, parting, filling
        real(real64) :: p, h
        integer :: n, at
        do n = my_waves(index) + parity, truncation, 2
            at = at_wave(index) + n - my_waves(index)
            p = legendre(at, pair)
            h = slope(at, pair)
            turning(n) = turning(n) - along*same(1)*p + other(2)*h
            parting(n) = parting(n) + along*same(2)*p + other(1)*h + n*(n + 1)/radius**2*same(5)*p
            filling(n) = filling(n) - along*same(3)*p + other(4)*h
        end do
    end subroutine add_terms

    ! Leapfrog; divergence and geopotential are coupled by the mean of old and new. The first step starts from rest.
    subroutine step_wave(index, turning, parting, filling, seconds)
        integer, intent(in) :: index
        complex(real64), dimension(0:truncation), intent(in) :: turning, parting, filling
        real(real64), intent(in) :: seconds
        complex(real64) :: new_vorticity, new_divergence, new_geopotential
        real(real64) :: half, laplacian
        integer :: n, at
        half = merge(seconds/2, seconds, is_first_step)
        do n = my_waves(index), truncation
            at = at_wave(index) + n - my_waves(index)
            laplacian = n*(n + 1)/radius**2
            new_vorticity = old_vorticity(at) + 2*half*turning(n)
            new_divergence = old_divergence(at) + 2*half*(parting(n) + laplacian*mountain(at)) + half*laplacian*old_geopotential(at)
            new_geopotential = old_geopotential(at) + 2*half*filling(n) - half*mean_geopotential*old_divergence(at)
            new_divergence = (new_divergence + half*laplacian*new_geopotential)/(1 + half**2*laplacian*mean_geopotential)
            new_geopotential = new_geopotential - half*mean_geopotential*new_divergence
            call remember(old_vorticity(at), vorticity(at), new_vorticity)
            call remember(old_divergence(at), divergence(at), new_divergence)
            call remember(old_geopotential(at), geopotential(at), new_geopotential)
        end do
    end subroutine step_wave

    subroutine remember(old, current, new)
        complex(real64), intent(inout) :: old, current
        complex(real64), intent(in) :: new
        old = merge(current, current + filter*(old - 2*current + new), is_first_step)
        current = new
    end subroutine remember

    ! Hands out, under numbers from 10 on, all that changes from step to step.
    subroutine each_field(to)
        interface
            subroutine to(number, field)
                integer, intent(in) :: number
                type(*), dimension(..), intent(in) :: field
            end subroutine to
        end interface
        call to(10, is_first_step)
        call to(11, vorticity)
        call to(12, divergence)
        call to(13, geopotential)
        call to(14, old_vorticity)
        call to(15, old_divergence)
        call to(16, old_geopotential)
    end subroutine each_field

    ! Of each latitude of this rank its part of mass, energy and potential enstrophy.
    subroutine invariants(fields, parts)
        complex(real64), intent(in) :: fields(:, 0:, :)
        real(real64), intent(out) :: parts(:, :)
        real(real64), dimension(longitudes, 2) :: absolute, depth, u, v
        real(real64) :: area, squared_cosine
        integer :: at
        do at = 1, size(my_latitudes), 2
            call to_grid(fields(of_vorticity, :, at:at + 1), absolute)
            call to_grid(fields(of_geopotential, :, at:at + 1), depth)
            call to_grid(fields(of_u, :, at:at + 1), u)
            call to_grid(fields(of_v, :, at:at + 1), v)
            absolute = absolute + 2*omega*rise(:, at:at + 1)
            depth = depth + mean_geopotential
            area = weight(my_latitudes(at))
            squared_cosine = 1 - mu(my_latitudes(at))**2
            parts(1, at:at + 1) = area*sum(depth, dim=1)
            parts(2, at:at + 1) = area*sum(depth*((u*u + v*v)/(2*squared_cosine) + depth/2 + ground(:, at:at + 1)), dim=1)
            parts(3, at:at + 1) = area*sum(absolute**2/(2*depth), dim=1)
        end do
    end subroutine invariants

    ! The largest error of the depth on this rank's latitudes against the start, as a part of the mean.
    real(real64) function height_error(fields)
        complex(real64), intent(in) :: fields(:, 0:, :)
        real(real64), dimension(longitudes, 2) :: depth
        integer :: at
        height_error = 0
        do at = 1, size(my_latitudes), 2
            call to_grid(fields(of_geopotential, :, at:at + 1), depth)
            height_error = max(height_error, maxval(abs(depth - surface(at) + ground(:, at:at + 1))))
        end do
        height_error = height_error/mean_geopotential
    end function height_error

    ! A real field on a latitude and on its mirror from its Fourier coefficients, by one complex transform. (Two fields of
    ! different magnitude must not share a transform: the rounding of the large one would drown the small one.)
    subroutine to_grid(waves, field)
        complex(real64), intent(in) :: waves(0:, :)
        real(real64), intent(out) :: field(:, :)
        complex(real64), parameter :: i = (0.0_real64, 1.0_real64)
        complex(real64) :: both(0:longitudes - 1)
        integer :: m
        ! The conjugate of a forward transform of the conjugate is the inverse one.
        both = 0
        both(0) = conjg(waves(0, 1) + i*waves(0, 2))
        do m = 1, truncation
            both(m) = conjg(waves(m, 1) + i*waves(m, 2))
            both(longitudes - m) = waves(m, 1) - i*waves(m, 2)
        end do
        call transform(both)
        field(:, 1) = real(both)
        field(:, 2) = -aimag(both)
    end subroutine to_grid

    ! The reverse.
    subroutine to_waves(field, waves)
        real(real64), intent(in) :: field(:, :)
        complex(real64), intent(out) :: waves(0:, :)
        complex(real64) :: both(0:longitudes - 1), mirror
        integer :: m
        both = cmplx(field(:, 1), field(:, 2), real64)/longitudes
        call transform(both)
        do m = 0, truncation
            mirror = conjg(both(mod(longitudes - m, longitudes)))
            waves(m, 1) = (both(m) + mirror)/2
            waves(m, 2) = (both(m) - mirror)/(0.0_real64, 2.0_real64)
        end do
    end subroutine to_waves

    ! The fast Fourier transform of Cooley and Tukey, radix 2, in place.
    subroutine transform(values)
        complex(real64), intent(inout) :: values(0:)
        complex(real64) :: swap
        integer :: at, half, block, stride
        do at = 0, longitudes - 1
            if (reversed(at + 1) > at) then
                swap = values(at)
                values(at) = values(reversed(at + 1))
                values(reversed(at + 1)) = swap
            end if
        end do
        half = 1
        do while (half < longitudes)
            stride = longitudes/(2*half)
            do block = 0, longitudes - 1, 2*half
                do at = 0, half - 1
                    swap = values(block + half + at)*turn(at*stride + 1)
                    values(block + half + at) = values(block + at) - swap
                    values(block + at) = values(block + at) + swap
                end do
            end do
            half = 2*half
        end do
    end subroutine transform

    pure integer function reverse(number, bits)
        integer, intent(in) :: number, bits
        integer :: bit
        reverse = 0
        do bit = 0, bits - 1
            if (btest(number, bit)) reverse = ibset(reverse, bits - 1 - bit)
        end do
    end function reverse

end module shallow_water
