# bash.bash SCRIPT LIBRARY WORD...: what bash offers for the last word. LIBRARY
# is bash-completion's, or empty.
script=$1 library=$2
shift 2
if [[ -n $library ]]; then
	source "$library"
fi
source "$script"
compopt() { :; } # works only where a person is typing
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
_lockrun
printf '%s\n' "${COMPREPLY[@]}"
