# Functions with which the scripts print messages: one sentence a line, with colours only on a terminal. Source this file.

bold='' dim='' red='' green='' plain=''
if [[ -t 1 && -z ${NO_COLOR:-} && ${TERM:-dumb} != dumb ]]; then
    bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m'
fi

heading() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
remark() { printf '%s%s%s\n' "$dim" "$*" "$plain"; }
success() { printf '%s%s%s\n' "$green" "$*" "$plain"; }
failure() { printf '%s%s%s\n' "$red" "$*" "$plain" >&2; }
