# Appends to files with >> and holds none of them open, one of them in a directory that it makes; one is written again from
# its beginning each time, one is replaced.
line=0
while [ $line -lt 60 ]; do
    line=$((line + 1))
    echo "line $line" >> appended.txt
    if [ $((line % 10)) -eq 5 ]; then
        mkdir -p stages
        echo "stage $line" >> stages/log.txt
    fi
    echo "state $line" > state.txt
    echo "goal $line" > goal.txt.new && mv goal.txt.new goal.txt
    sleep 0.03
done
echo "done at $line"
