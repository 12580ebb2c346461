# bash completion for lockrun
# Nothing here runs lockrun or evaluates what was typed.

# _lockrun_options COMMAND sets options to those of a command, "" is a run.
_lockrun_options() {
	local tls="--redis --redis-ca --redis-cert --redis-key"
	local store="--postgres --local --state-dir --config --help"
	case $1 in
	"")
		options="--name --date --tz --day-starts --rerun --quorum --ttl --kill-after --leftovers
			--wait --nonblock --max-runtime --at-least --conflict-exit-code --done-exit-code
			--holder --export-pgoptions --quiet --verbose --log-format --version $tls $store"
		;;
	init) options="--print $store" ;;
	status) options="--name --json $tls $store" ;;
	history) options="--name --since --until --missing --tz --day-starts --json $store" ;;
	resolve) options="--name --date --as --reason --tz --day-starts --outbox --json $store" ;;
	release) options="--name --reason --force --json $tls $store" ;;
	doctor) options="--ttl --kill-after --json $tls $store" ;;
	completion | version) options="--help" ;;
	esac
}

# _lockrun_takes OPTION tells whether the option is followed by a value.
_lockrun_takes() {
	case $1 in
	--local | --nonblock | --export-pgoptions | --quiet | --verbose | --version | --help) return 1 ;;
	--print | --json | --outbox | --force) return 1 ;;
	--* | -w | -E) return 0 ;;
	esac
	return 1
}

# _lockrun_child completes what stands after the --, from word number $1 on.
_lockrun_child() {
	if declare -F _comp_command_offset >/dev/null; then
		_comp_command_offset "$1"
	elif declare -F _command_offset >/dev/null; then
		_command_offset "$1"
	elif (($1 == COMP_CWORD)); then
		mapfile -t COMPREPLY < <(compgen -c -- "$cur")
	else
		compopt -o default 2>/dev/null
	fi
}

# _lockrun_value OPTION completes the value of an option.
_lockrun_value() {
	local words=
	case $1 in
	--date | --since | --until)
		words="today yesterday this-hour last-hour this-week last-week this-month last-month"
		[[ $1 == --date && -z $command ]] && words+=" scheduled"
		;;
	--quorum) words="required preferred" ;;
	--leftovers) words="kill wait leave" ;;
	--rerun) words="failed unknown succeeded" ;;
	--log-format) words="text json" ;;
	--missing) words="day weekday hour week month" ;;
	--as) words="succeeded failed rerun" ;;
	--state-dir)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		return
		;;
	--redis-ca | --redis-cert | --redis-key | --config)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}

_lockrun() {
	local cur=${COMP_WORDS[COMP_CWORD]} option= command= options= i
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--)
			_lockrun_child $((i + 1))
			return
			;;
		=) ;; # --option=value comes as three words
		-*)
			option=
			if _lockrun_takes "${COMP_WORDS[i]}"; then
				option=${COMP_WORDS[i]}
			fi
			;;
		*)
			[[ -z $option && -z $command ]] && command=${COMP_WORDS[i]}
			option=
			;;
		esac
	done
	if [[ -n $option ]]; then
		[[ $cur == "=" ]] && cur=
		_lockrun_value "$option"
		return
	fi
	_lockrun_options "$command"
	case $cur in
	-*) ;;
	*)
		case $command in
		"") options="init status history resolve release doctor completion version" ;;
		completion) options="bash zsh fish" ;;
		esac
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
}

complete -F _lockrun lockrun
