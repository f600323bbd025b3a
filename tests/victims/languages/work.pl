# Hashes, regular expressions, sorting and an alarm; a line for each round.
use strict;
use warnings;
use integer;

my ($state, $alarms, $sum) = (1, 0, 0);
local $SIG{ALRM} = sub { $alarms++ };
$| = 1;
for my $round (0 .. 80 * ($ENV{VICTIM_TIMES} || 1) - 1) {
    my %table;
    for (1 .. 2500) {
        $state = $state * 6364136223846793005 + 1442695040888963407;
        my $key = sprintf '%x', ($state >> 44) & 0xfffff;
        $table{$key} .= "$state,";
    }
    for my $key (sort keys %table) {
        my $count = () = $table{$key} =~ /\d+/g;
        $sum = $sum * 31 + hex($key) + $count;
    }
    alarm 1 if $round == 50;
    select undef, undef, undef, 0.01;
    print "round $round sum $sum\n";
}
select undef, undef, undef, 0.05 until $alarms;
print "end $alarms\n";
