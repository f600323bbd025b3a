! pstswm: the shallow water equations on a rotating sphere, by the spectral transform method, in parallel.
!
! PSTSWM of "Diskless Checkpointing" (1998). The model is that of ../stswm.f90; between Fourier and Legendre transform the ranks
! exchange what they hold, all with all. No sum crosses ranks: the checksum is that of ../stswm.f90 with the same arguments.
!
! Self-checks: those of ../stswm.f90.
!
! usage: mpirun -n RANKS pstswm [TRUNCATION (85) [HOURS (6) [TEST CASE: 2 or 5 (5)]]]
program pstswm
    use mpi_f08
    use parallel
    use example
    use shallow_water
    implicit none
    complex(real64), allocatable :: by_waves(:, :, :), by_latitudes(:, :, :), products(:, :, :), back(:, :, :)
    real(real64) :: ended(3), seconds
    real(real64), save :: begun(3)
    integer :: hours, test_case, step, steps, from = 1

    call start()
    test_case = argument(3, 5, 2, 5)
    call set_up(test_case, argument(1, 85, 2, 682), rank, ranks)
    hours = argument(2, 6, 1, 1000)
    if (ranks > min(truncation + 1, latitudes/2)) error stop 'there are more ranks than wave numbers or pairs of latitudes'
    steps = ceiling(hours*3600*truncation/50000.0)
    seconds = hours*3600.0_real64/steps
    allocate (by_waves(fields_out, latitudes, size(my_waves)), back(fields_back, latitudes, size(my_waves)))
    allocate (by_latitudes(fields_out, 0:truncation, size(my_latitudes)))
    allocate (products(fields_back, 0:truncation, size(my_latitudes)))

    call start_fields(products)
    call to_waves(products, back)
    call analyze_start(back)
    begun = totals()
    call standfast_protect_all(0, from, begun)
    call each_field(standfast_protect)
    if (standfast_restored()) call tell()
    do step = from, steps
        from = step
        if (standfast_due()) call standfast_checkpoint()
        call synthesize(by_waves)
        call to_latitudes(by_waves, by_latitudes)
        call multiply(by_latitudes, products)
        call to_waves(products, back)
        call advance(back, seconds)
        if (mod(step, max(1, steps/20)) == 0) call tell()
    end do
    ended = totals()
    call check_all('change of mass', abs(ended(1)/begun(1) - 1), 1e-13_real64)
    call check_all('change of energy', abs(ended(2)/begun(2) - 1), 1e-5_real64)
    call check_all('change of potential enstrophy', abs(ended(3)/begun(3) - 1), 1e-4_real64)
    if (test_case == 2) call check_all('error of the depth', height_error(by_latitudes), 1e-11_real64)
    call finish(checksum_of(checksum_of(checksum_of(checksum_start, vorticity), divergence), geopotential))

contains

    subroutine tell()
        if (rank /= 0) return
        print '(a, i0, a, i0)', 'step ', from, ' of ', steps
        flush (6)
    end subroutine tell

    ! How many numbers go to each rank when this one has `own` of one kind and each other one `theirs` of the other.
    subroutine lay_out(fields, own, theirs, counts, starts)
        integer, intent(in) :: fields, own, theirs(ranks)
        integer, intent(out) :: counts(ranks), starts(ranks)
        integer :: other
        counts = fields*own*theirs
        starts = [(sum(counts(:other - 1)), other=1, ranks)]
    end subroutine lay_out

    function latitude_counts()
        integer :: latitude_counts(ranks), other
        latitude_counts = [(size(latitudes_of(other, ranks)), other=0, ranks - 1)]
    end function latitude_counts

    function wave_counts()
        integer :: wave_counts(ranks), other
        wave_counts = [(size(share_of(other, ranks, truncation + 1)), other=0, ranks - 1)]
    end function wave_counts

    ! Each rank gives to each other one what it has of its waves on the other's latitudes.
    subroutine to_latitudes(waves, along_latitudes)
        complex(real64), intent(in) :: waves(:, :, :)
        complex(real64), intent(out) :: along_latitudes(:, :, :)
        integer, dimension(ranks) :: send_counts, send_starts, receive_counts, receive_starts
        complex(real64) :: sent(size(waves)), received(size(along_latitudes))
        integer :: fields, other, wave, at
        fields = size(waves, 1)
        call lay_out(fields, size(my_waves), latitude_counts(), send_counts, send_starts)
        call lay_out(fields, size(my_latitudes), wave_counts(), receive_counts, receive_starts)
        at = 0
        do other = 0, ranks - 1
            do wave = 1, size(my_waves)
                call append(sent, at, waves(:, latitudes_of(other, ranks), wave))
            end do
        end do
        call MPI_Alltoallv(sent, send_counts, send_starts, MPI_DOUBLE_COMPLEX, received, receive_counts, receive_starts, &
                           MPI_DOUBLE_COMPLEX, MPI_COMM_WORLD)
        at = 0
        do other = 0, ranks - 1
            do wave = other + 1, truncation + 1, ranks
                along_latitudes(:, wave, :) = reshape(received(at + 1:), [fields, size(my_latitudes)])
                at = at + fields*size(my_latitudes)
            end do
        end do
    end subroutine to_latitudes

    ! The way back.
    subroutine to_waves(along_latitudes, waves)
        complex(real64), intent(in) :: along_latitudes(:, :, :)
        complex(real64), intent(out) :: waves(:, :, :)
        integer, dimension(ranks) :: send_counts, send_starts, receive_counts, receive_starts
        complex(real64) :: sent(size(along_latitudes)), received(size(waves))
        integer :: fields, other, wave, at, theirs
        fields = size(waves, 1)
        call lay_out(fields, size(my_latitudes), wave_counts(), send_counts, send_starts)
        call lay_out(fields, size(my_waves), latitude_counts(), receive_counts, receive_starts)
        at = 0
        do other = 0, ranks - 1
            do wave = other + 1, truncation + 1, ranks
                call append(sent, at, along_latitudes(:, wave, :))
            end do
        end do
        call MPI_Alltoallv(sent, send_counts, send_starts, MPI_DOUBLE_COMPLEX, received, receive_counts, receive_starts, &
                           MPI_DOUBLE_COMPLEX, MPI_COMM_WORLD)
        at = 0
        do other = 0, ranks - 1
            theirs = size(latitudes_of(other, ranks))
            do wave = 1, size(my_waves)
                waves(:, latitudes_of(other, ranks), wave) = reshape(received(at + 1:), [fields, theirs])
                at = at + fields*theirs
            end do
        end do
    end subroutine to_waves

    subroutine append(buffer, at, numbers)
        complex(real64), intent(inout) :: buffer(:)
        integer, intent(inout) :: at
        complex(real64), intent(in) :: numbers(:, :)
        buffer(at + 1:at + size(numbers)) = reshape(numbers, [size(numbers)])
        at = at + size(numbers)
    end subroutine append

    ! Of the newest state, added latitude by latitude.
    function totals()
        real(real64) :: totals(3), own(3, size(my_latitudes)), parts(3, latitudes)
        call synthesize(by_waves)
        call to_latitudes(by_waves, by_latitudes)
        call invariants(by_latitudes, own)
        parts = 0
        parts(:, my_latitudes) = own
        ! All but one of the terms of each sum are zero.
        call MPI_Allreduce(MPI_IN_PLACE, parts, size(parts), MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
        totals = sum(parts, dim=2)
    end function totals

    ! Of a whole field in the order of its waves.
    integer(int64) function checksum_of(hash, field)
        integer(int64), intent(in) :: hash
        complex(real64), intent(in) :: field(:)
        complex(real64) :: gathered((truncation + 1)*(truncation + 2)/2), whole(size(gathered))
        integer :: counts(ranks), starts(ranks), other, wave, at, to, length
        counts = [(sum(truncation + 2 - share_of(other, ranks, truncation + 1)), other=0, ranks - 1)]
        starts = [(sum(counts(:other - 1)), other=1, ranks)]
        call MPI_Allgatherv(field, size(field), MPI_DOUBLE_COMPLEX, gathered, counts, starts, MPI_DOUBLE_COMPLEX, MPI_COMM_WORLD)
        at = 0
        do other = 0, ranks - 1
            do wave = other, truncation, ranks
                length = truncation + 1 - wave
                to = wave*(truncation + 1) - wave*(wave - 1)/2
                whole(to + 1:to + length) = gathered(at + 1:at + length)
                at = at + length
            end do
        end do
        checksum_of = checksum(checksum(hash, real(whole)), aimag(whole))
    end function checksum_of

end program pstswm
