# Tables, numbers and strings; a line for each round, part of them into a file of its own.
BEGIN {
    state = 1
    times = ENVIRON["VICTIM_TIMES"] + 0
    for (round = 0; round < 80 * (times ? times : 1); round++) {
        delete table
        for (i = 0; i < 5000; i++) {
            state = (state * 16807) % 2147483647
            table[state % 5003] = table[state % 5003] state ","
        }
        for (i = 0; i < 5003; i++)
            if (i in table) {
                count = split(table[i], parts, ",")
                sum = (sum * 31 + i * count + length(table[i])) % 2147483647
            }
        print "round", round, "sum", sum
        fflush()
        if (round % 7 == 0)
            print round, sum > "sums"
    }
    print "end"
}
