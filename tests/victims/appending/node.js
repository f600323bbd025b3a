// Appends a line to a file each time, as appendFile does: opens it, writes, closes it.
'use strict';
const fs = require('fs');
let line = 0;
function step() {
    line += 1;
    fs.appendFileSync('appended.csv', `${line},${line * line}\n`);
    if (line < 60) setTimeout(step, 30);
    else console.log(`done at ${line}`);
}
step();
