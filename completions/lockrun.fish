# fish completion for lockrun
# Nothing here runs lockrun or evaluates what was typed.

# The command of lockrun that stands on the line; nothing for a run.
function __lockrun_command
    set -l takes_value 0
    for word in (commandline -opc)[2..-1]
        if test $takes_value -eq 1
            set takes_value 0
            continue
        end
        switch $word
            case --
                return 1
            case --local --nonblock --export-pgoptions --quiet --verbose --version --help --print --json --outbox --force '--*=*'
            case '--*' -w -E
                set takes_value 1
            case '-*'
            case '*'
                echo -- $word
                return
        end
    end
    return 1
end

function __lockrun_run
    not contains -- -- (commandline -opc); and not __lockrun_command >/dev/null
end

function __lockrun_in
    set -l command (__lockrun_command)
    and contains -- "$command" $argv
end

function __lockrun_after_dashes
    contains -- -- (commandline -opc)
end

# What stands after the --, completed as a line of its own.
function __lockrun_child
    set -l words (commandline -opc)
    set -l cut (contains -i -- -- $words)
    or return
    set -e words[1..$cut]
    complete -C (string join -- ' ' (string escape -- $words) (commandline -ct))
end

complete -c lockrun -f
complete -c lockrun -n __lockrun_after_dashes -a '(__lockrun_child)'

complete -c lockrun -n __lockrun_run -a init -d 'Make the schema'
complete -c lockrun -n __lockrun_run -a status -d 'Who holds what'
complete -c lockrun -n __lockrun_run -a history -d 'Every attempt of a name'
complete -c lockrun -n __lockrun_run -a resolve -d 'Decide a failed or unknown date'
complete -c lockrun -n __lockrun_run -a release -d 'End the lease of a dead holder'
complete -c lockrun -n __lockrun_run -a doctor -d 'Check the ground'
complete -c lockrun -n __lockrun_run -a completion -d 'Print the completion for a shell'
complete -c lockrun -n __lockrun_run -a version -d 'Print the version'

set -l dates 'today yesterday this-hour last-hour this-week last-week this-month last-month'

# A run
complete -c lockrun -n __lockrun_run -l name -x -d 'The job'
complete -c lockrun -n __lockrun_run -l date -xa "$dates scheduled" -d 'The date of the run'
complete -c lockrun -n __lockrun_run -l rerun -xa 'failed unknown succeeded' -d 'Earlier ends that may be run again'
complete -c lockrun -n __lockrun_run -l quorum -xa 'required preferred' -d 'What unreachable Redis means'
complete -c lockrun -n __lockrun_run -l leftovers -xa 'kill wait leave' -d 'Descendants that outlive the command'
complete -c lockrun -n __lockrun_run -s w -l wait -x -d 'Wait this long for the holder'
complete -c lockrun -n __lockrun_run -s n -l nonblock -d "Don't wait"
complete -c lockrun -n __lockrun_run -l max-runtime -x -d 'End the command after this time'
complete -c lockrun -n __lockrun_run -l at-least -x -d 'Keep the lease this long after the start'
complete -c lockrun -n __lockrun_run -s E -l conflict-exit-code -x -d 'Exit code when held'
complete -c lockrun -n __lockrun_run -l done-exit-code -x -d 'Exit code when done'
complete -c lockrun -n __lockrun_run -l holder -x -d 'Who holds, for people'
complete -c lockrun -n __lockrun_run -l export-pgoptions -d "The run's id in PGOPTIONS"
complete -c lockrun -n __lockrun_run -s q -l quiet -d 'Errors only'
complete -c lockrun -n __lockrun_run -s v -l verbose -d 'Each step'
complete -c lockrun -n __lockrun_run -s V -l version -d 'Version'
complete -c lockrun -n __lockrun_run -l log-format -xa 'text json' -d 'Lines for people or programs'

# Where runs are recorded
for condition in __lockrun_run '__lockrun_in init status history resolve release doctor'
    complete -c lockrun -n $condition -l postgres -x -d 'Postgres, or file:PATH'
    complete -c lockrun -n $condition -l local -d 'This host only'
    complete -c lockrun -n $condition -l state-dir -xa '(__fish_complete_directories)' -d 'The local store'
    complete -c lockrun -n $condition -l config -rF -d 'Configuration file'
end
for condition in __lockrun_run '__lockrun_in status release doctor'
    complete -c lockrun -n $condition -l redis -x -d 'A Redis master, or file:PATH'
    complete -c lockrun -n $condition -l redis-ca -rF -d 'Authority of the Redis servers'
    complete -c lockrun -n $condition -l redis-cert -rF -d 'Certificate to log in with'
    complete -c lockrun -n $condition -l redis-key -rF -d 'Key to log in with'
end
for condition in __lockrun_run '__lockrun_in doctor'
    complete -c lockrun -n $condition -l ttl -x -d 'How long lock and lease outlive a renewal'
    complete -c lockrun -n $condition -l kill-after -x -d 'From SIGTERM to SIGKILL'
end
for condition in __lockrun_run '__lockrun_in history resolve'
    complete -c lockrun -n $condition -l tz -x -d 'Time zone of the words of dates'
    complete -c lockrun -n $condition -l day-starts -x -d 'Earlier times belong to the day before'
end
complete -c lockrun -n 'not __lockrun_after_dashes' -s h -l help -d 'Help'

# The other commands
complete -c lockrun -n '__lockrun_in init' -l print -d 'Print the SQL'
complete -c lockrun -n '__lockrun_in status history resolve release' -l name -x -d 'The job'
complete -c lockrun -n '__lockrun_in status history resolve release doctor' -l json -d 'Objects instead of text'
complete -c lockrun -n '__lockrun_in history' -l since -xa $dates -d 'First date'
complete -c lockrun -n '__lockrun_in history' -l until -xa $dates -d 'Last date'
complete -c lockrun -n '__lockrun_in history' -l missing -xa 'day weekday hour week month' -d 'Dates without a success'
complete -c lockrun -n '__lockrun_in resolve' -l date -xa $dates -d 'The date to decide'
complete -c lockrun -n '__lockrun_in resolve' -l as -xa 'succeeded failed rerun' -d 'The decision'
complete -c lockrun -n '__lockrun_in resolve release' -l reason -x -d 'Why, for the record'
complete -c lockrun -n '__lockrun_in resolve' -l outbox -d 'Store what could not be stored'
complete -c lockrun -n '__lockrun_in release' -l force -d 'Even a holder in good standing'
complete -c lockrun -n '__lockrun_in completion' -a 'bash zsh fish'
