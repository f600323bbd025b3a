! mcnf: the cheapest flow of many commodities through one network whose arcs they share, by the simplex method.
!
! MCNF of the papers of 1995: 100 vertices and 50 commodities. From one pivot to the next little of the memory changes, which
! is why incremental checkpoints do so well. There are no directives.
!
! The columns of the linear program are paths, found when they are wanted as shortest paths under the prices of the moment
! (Ford and Fulkerson, Management Science 5, 1958; Tomlin, Operations Research 14, 1966); its rows are demands and
! capacities; the inverse of the basis is kept. Demand that is not met costs a great deal, so that there is a solution.
!
! Self-check: a proof that the flow is optimal. It meets all demands within all capacities; no path is cheaper than the price
! that its commodity pays, by the method of Bellman and Ford; and the value of the flow is that of the prices.
!
! usage: mcnf [VERTICES (100) [COMMODITIES (50) [ARCS OF A VERTEX (9)]]]
program mcnf
    use example
    implicit none
    real(real64), parameter :: tolerance = 1e-9_real64, unmet = 1e4_real64
    integer, parameter :: refresh_every = 1000, pivots_max = 1000000

    integer :: vertices, commodities, arcs, rows
    integer, allocatable :: tail(:), head(:), source(:), sink(:)
    real(real64), allocatable :: capacity(:), demand(:), cost(:, :)
    ! Of each row the column that is basic in it: its commodity, 0 for what is left of a capacity; its arcs; its cost.
    integer, allocatable :: of_commodity(:), of_arc(:), path_length(:), path(:, :)
    real(real64), allocatable :: column_cost(:), amount(:), inverse(:, :), price(:)
    integer, allocatable :: found(:)
    integer :: found_length, pivots, commodity
    real(real64) :: gain

    vertices = argument(1, 100, 3, 10000)
    commodities = argument(2, 50, 1, 10000)
    arcs = vertices*min(argument(3, 9, 2, 1000), vertices - 1)
    rows = commodities + arcs
    allocate (tail(arcs), head(arcs), source(commodities), sink(commodities), capacity(arcs), demand(commodities))
    allocate (cost(arcs, commodities), of_commodity(rows), of_arc(rows), path_length(rows), path(vertices, rows))
    allocate (column_cost(rows), amount(rows), inverse(rows, rows), price(rows), found(vertices))
    call make_network()
    call start_basis()
    commodity = 1
    do pivots = 1, pivots_max
        if (mod(pivots, refresh_every) == 0) call refresh()
        if (.not. improves(commodity, gain)) exit
        call pivot(commodity, gain)
        if (mod(pivots, 500) == 0) call tell()
    end do
    call refresh()
    if (improves(commodity, gain)) error stop 'rounding has hidden an improvement'
    call tell()
    call prove()
    print '(a, z16.16)', 'checksum ', checksum(checksum(checksum_start, amount), price)

contains

    subroutine tell()
        print '(i0, a, f0.6)', pivots, ' pivots, cost ', sum(column_cost*amount)
        flush (6)
    end subroutine tell

    ! Rows are demands, then capacities.
    pure integer function row_of(arc)
        integer, intent(in) :: arc
        row_of = commodities + arc
    end function row_of

    ! A ring through all vertices, so that each can be reached, and random arcs.
    subroutine make_network()
        integer :: vertex, arc, degree, k
        integer(int64) :: index
        degree = arcs/vertices
        do vertex = 1, vertices
            do arc = (vertex - 1)*degree + 1, vertex*degree
                tail(arc) = vertex
                index = int(arc, int64)*3
                head(arc) = modulo(vertex + int(random(index)*(vertices - 1)), vertices) + 1
                if (arc == (vertex - 1)*degree + 1) head(arc) = modulo(vertex, vertices) + 1
                capacity(arc) = 5 + 20*random(index + 1)
                do k = 1, commodities
                    cost(arc, k) = 1 + 9*random(-(int(arc, int64)*commodities + k))
                end do
            end do
        end do
        do k = 1, commodities
            index = -int(k, int64)*1000003_int64 - 2000000011_int64
            source(k) = 1 + int(vertices*random(index))
            sink(k) = modulo(source(k) + int(random(index + 1)*(vertices - 1)), vertices) + 1
            demand(k) = 15 + 30*random(index + 2)
        end do
    end subroutine make_network

    ! No demand is met and no capacity is used.
    subroutine start_basis()
        integer :: row, k, arc
        inverse = 0
        do row = 1, rows
            inverse(row, row) = 1
        end do
        of_commodity = [(k, k=1, commodities), (0, arc=1, arcs)]
        of_arc = [(0, k=1, commodities), (arc, arc=1, arcs)]
        path_length = 0
        column_cost = [(unmet, k=1, commodities), (0.0_real64, arc=1, arcs)]
        amount = [demand, capacity]
        price = [(unmet, k=1, commodities), (0.0_real64, arc=1, arcs)]
    end subroutine start_basis

    ! Looks for a column that lowers the cost, commodities in turn: found is its path, gain what a unit of it saves. A capacity
    ! with a price of the wrong sign comes first, as commodity 0, so that no length is negative afterwards.
    logical function improves(commodity, gain)
        integer, intent(inout) :: commodity
        real(real64), intent(out) :: gain
        integer :: arc, turn, k
        real(real64) :: length
        improves = .true.
        arc = maxloc(price(commodities + 1:), dim=1)
        gain = price(row_of(arc))
        if (gain > tolerance) then
            found(1) = arc
            found_length = 1
            commodity = -abs(commodity)
            return
        end if
        k = abs(commodity)
        do turn = 1, commodities
            k = modulo(k, commodities) + 1
            call shortest_path(k, length)
            ! Not to meet the demand may have become the cheaper thing again.
            if (length > unmet) found_length = 0
            gain = price(k) - min(length, unmet)
            if (gain > tolerance*unmet) then
                commodity = k
                return
            end if
        end do
        improves = .false.
    end function improves

    ! Dijkstra's method, with the arcs of a vertex side by side.
    subroutine shortest_path(k, length)
        integer, intent(in) :: k
        real(real64), intent(out) :: length
        real(real64) :: distance(vertices), through
        integer :: by(vertices), vertex, arc, degree
        logical :: is_open(vertices)
        degree = arcs/vertices
        distance = huge(distance)
        distance(source(k)) = 0
        is_open = .true.
        by = 0
        do
            vertex = minloc(distance, dim=1, mask=is_open)
            if (vertex == sink(k)) exit
            is_open(vertex) = .false.
            do arc = (vertex - 1)*degree + 1, vertex*degree
                through = distance(vertex) + max(0.0_real64, cost(arc, k) - price(row_of(arc)))
                if (is_open(head(arc)) .and. through < distance(head(arc))) then
                    distance(head(arc)) = through
                    by(head(arc)) = arc
                end if
            end do
        end do
        length = distance(sink(k))
        found_length = 0
        vertex = sink(k)
        do while (vertex /= source(k))
            found_length = found_length + 1
            found(found_length) = by(vertex)
            vertex = tail(by(vertex))
        end do
    end subroutine shortest_path

    ! Brings what was found into the basis.
    subroutine pivot(commodity, gain)
        integer, intent(in) :: commodity
        real(real64), intent(in) :: gain
        real(real64) :: change(rows), step, factor
        integer :: row, leaving, at
        change = 0
        if (commodity > 0) change = inverse(:, commodity)
        do at = 1, found_length
            change = change + inverse(:, row_of(found(at)))
        end do
        leaving = minloc(amount/change, dim=1, mask=change > tolerance)
        if (leaving == 0) error stop 'the cost has no bound'
        step = max(0.0_real64, amount(leaving)/change(leaving))
        amount = amount - step*change
        amount(leaving) = step
        price = price - gain/change(leaving)*inverse(leaving, :)
        do at = 1, rows
            if (abs(inverse(leaving, at)) > 0) then
                factor = inverse(leaving, at)/change(leaving)
                do row = 1, rows
                    if (abs(change(row)) > 0) inverse(row, at) = inverse(row, at) - factor*change(row)
                end do
                inverse(leaving, at) = factor
            end if
        end do
        of_commodity(leaving) = max(commodity, 0)
        of_arc(leaving) = merge(0, found(1), commodity > 0)
        path_length(leaving) = merge(found_length, 0, commodity > 0)
        path(:found_length, leaving) = found(:found_length)
        column_cost(leaving) = 0
        if (commodity > 0) column_cost(leaving) = unmet
        if (commodity > 0 .and. found_length > 0) column_cost(leaving) = sum(cost(found(:found_length), commodity))
    end subroutine pivot

    ! Inverts the basis again, against the rounding of many pivots.
    subroutine refresh()
        integer :: row, at, info, pivoted(rows)
        real(real64) :: work(64*rows)
        inverse = 0
        do row = 1, rows
            if (of_commodity(row) > 0) inverse(of_commodity(row), row) = 1
            if (of_arc(row) > 0) inverse(row_of(of_arc(row)), row) = 1
            do at = 1, path_length(row)
                inverse(row_of(path(at, row)), row) = 1
            end do
        end do
        call dgetrf(rows, rows, inverse, rows, pivoted, info)
        if (info == 0) call dgetri(rows, inverse, rows, pivoted, work, size(work), info)
        if (info /= 0) error stop 'a singular basis'
        amount = matmul(inverse, [demand, capacity])
        price = matmul(column_cost, inverse)
    end subroutine refresh

    ! From the network alone: the paths, what they carry, and the prices.
    subroutine prove()
        real(real64) :: served(commodities), used(arcs), worth, total, dearest
        integer :: row, k
        served = 0
        used = 0
        total = 0
        dearest = 0
        do row = 1, rows
            k = of_commodity(row)
            if (k == 0) cycle
            if (path_length(row) > 0) call follow(path(:path_length(row), row), k)
            served(k) = served(k) + amount(row)
            used(path(:path_length(row), row)) = used(path(:path_length(row), row)) + amount(row)
            total = total + amount(row)*merge(sum(cost(path(:path_length(row), row), k)), unmet, path_length(row) > 0)
        end do
        do k = 1, commodities
            dearest = max(dearest, price(k) - min(unmet, cheapest(k)))
        end do
        worth = dot_product(price, [demand, capacity])
        call check('amount below zero', max(0.0_real64, -minval(amount)), 1e-8_real64)
        call check('demand that is not accounted for', maxval(abs(served - demand)), 1e-8_real64)
        call check('use of an arc beyond its capacity', maxval(used - capacity), 1e-8_real64)
        call check('price that should be none', maxval(price(commodities + 1:)), 1e-8_real64)
        call check('price of a commodity above its cheapest path', dearest, 1e-4_real64)
        call check('value of the flow against the prices', abs(total - worth)/total, 1e-9_real64)
    end subroutine prove

    ! A path must lead from the source to the sink; it is kept from its end.
    subroutine follow(arcs, k)
        integer, intent(in) :: arcs(:), k
        integer :: at
        if (head(arcs(1)) /= sink(k) .or. tail(arcs(size(arcs))) /= source(k)) error stop 'a path leads elsewhere'
        do at = 1, size(arcs) - 1
            if (tail(arcs(at)) /= head(arcs(at + 1))) error stop 'a path is torn'
        end do
    end subroutine follow

    ! The length of a shortest path, by the method of Bellman and Ford.
    real(real64) function cheapest(k)
        integer, intent(in) :: k
        real(real64) :: distance(vertices), through
        integer :: arc
        logical :: changed
        distance = huge(distance)
        distance(source(k)) = 0
        changed = .true.
        do while (changed)
            changed = .false.
            do arc = 1, arcs
                through = distance(tail(arc)) + max(0.0_real64, cost(arc, k) - price(row_of(arc)))
                if (distance(tail(arc)) < huge(distance) .and. through < distance(head(arc))) then
                    distance(head(arc)) = through
                    changed = .true.
                end if
            end do
        end do
        cheapest = distance(sink(k))
    end function cheapest

end program mcnf
