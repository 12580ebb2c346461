#compdef lockrun
# zsh completion for lockrun
# Nothing here runs lockrun or evaluates what was typed.

_lockrun() {
  local -i cut=${words[(i)--]} i
  if (( cut < CURRENT )); then # a command of its own stands after the --
    shift $cut words
    (( CURRENT -= cut ))
    _normal
    return
  fi

  local command takes_value word
  for (( i = 2; i < CURRENT; i++ )); do
    word=$words[i]
    if [[ -n $takes_value ]]; then
      takes_value=
      continue
    fi
    case $word in
      (--local|--nonblock|--export-pgoptions|--quiet|--verbose|--version|--help) ;;
      (--print|--json|--outbox|--force|--*=*) ;;
      (--*|-w|-E) takes_value=1 ;;
      (-*) ;;
      (*) command=$word; break ;;
    esac
  done

  local dates='(today yesterday this-hour last-hour this-week last-week this-month last-month)'
  local -a store redis timing wall_clock
  store=(
    '--postgres=[Postgres, or file\:PATH]:DSN:'
    '--local[this host only]'
    '--state-dir=[the local store]:directory:_directories'
    '--config=[configuration file]:file:_files'
    '(-h --help)'{-h,--help}'[help]'
  )
  redis=(
    '*--redis=[a Redis master, or file\:PATH]:URL:'
    '--redis-ca=[authority of the Redis servers]:file:_files'
    '--redis-cert=[certificate to log in with]:file:_files'
    '--redis-key=[key to log in with]:file:_files'
  )
  timing=(
    '--ttl=[how long lock and lease outlive a renewal]:duration:'
    '--kill-after=[from SIGTERM to SIGKILL]:duration:'
  )
  wall_clock=(
    '--tz=[time zone of the words of dates]:zone:_time_zone'
    '--day-starts=[earlier times belong to the day before]:HH\:MM:'
  )
  local name='--name=[the job]:name:' json='--json[objects instead of text]'
  local reason='--reason=[why, for the record]:text:'

  case $command in
    ('')
      _arguments -s \
        $name \
        "--date=[the date of the run]:date:${dates%)} scheduled)" \
        '--rerun=[earlier ends that may be run again]:ends:_values -s , end failed unknown succeeded' \
        '--quorum=[what unreachable Redis means]:word:(required preferred)' \
        '--leftovers=[descendants that outlive the command]:word:(kill wait leave)' \
        '(-n --nonblock -w --wait)'{-w+,--wait=}'[wait this long for the holder]:duration:' \
        '(-n --nonblock -w --wait)'{-n,--nonblock}"[don't wait]" \
        '--max-runtime=[end the command after this time]:duration:' \
        '--at-least=[keep the lease this long after the start]:duration:' \
        '(-E --conflict-exit-code)'{-E+,--conflict-exit-code=}'[exit code when held]:code:' \
        '--done-exit-code=[exit code when done]:code:' \
        '--holder=[who holds, for people]:text:' \
        "--export-pgoptions[the run's id in PGOPTIONS]" \
        '(-q --quiet -v --verbose)'{-q,--quiet}'[errors only]' \
        '(-q --quiet -v --verbose)'{-v,--verbose}'[each step]' \
        '(-V --version)'{-V,--version}'[version]' \
        '--log-format=[lines for people or programs]:format:(text json)' \
        $timing $wall_clock $store $redis \
        '1:command:((init\:"make the schema" status\:"who holds what" history\:"every attempt of a name" resolve\:"decide a failed or unknown date" release\:"end the lease of a dead holder" doctor\:"check the ground" completion\:"print the completion for a shell" version\:"print the version"))'
      ;;
    (init) _arguments $store '--print[print the SQL]' '1: :' ;;
    (status) _arguments $name $json $store $redis '1: :' ;;
    (history)
      _arguments $name $json $wall_clock $store '1: :' \
        "--since=[first date]:date:$dates" \
        "--until=[last date]:date:$dates" \
        '--missing=[dates without a success]:unit:(day weekday hour week month)'
      ;;
    (resolve)
      _arguments $name $json $reason $wall_clock $store '1: :' \
        "--date=[the date to decide]:date:$dates" \
        '--as=[the decision]:decision:(succeeded failed rerun)' \
        '--outbox[store what could not be stored]'
      ;;
    (release) _arguments $name $json $reason $store $redis '--force[even a holder in good standing]' '1: :' ;;
    (doctor) _arguments $json $timing $store $redis '1: :' ;;
    (completion) _arguments '(-h --help)'{-h,--help}'[help]' '1: :' '2:shell:(bash zsh fish)' ;;
    (version) _arguments '(-h --help)'{-h,--help}'[help]' '1: :' ;;
  esac
}

if [[ $funcstack[1] == _lockrun ]]; then # loaded from fpath
  _lockrun "$@"
else # sourced
  compdef _lockrun lockrun
fi
