# Vectors, matrices, closures and random numbers; a line for each round.
set.seed(1)
sums <- numeric(0)
times <- as.numeric(Sys.getenv("VICTIM_TIMES", "1"))
for (round in seq_len(50 * times) - 1) {
    m <- matrix(rnorm(6400), 80)
    s <- solve(crossprod(m) + diag(80))
    words <- vapply(1:2000, function(i) paste0("w", (i * 7919) %% 1009), "")
    counts <- sort(table(words), decreasing = TRUE)
    sums <- c(sums, sum(diag(s)) + sum(counts[1:10]))
    Sys.sleep(0.01)
    cat(sprintf("round %d sum %.12e\n", round, sum(sums)))
}
saveRDS(sums, "sums.rds", compress = FALSE)
cat("end\n")
