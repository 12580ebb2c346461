# The interactive shell that capture.zsh types into: Tab completes and writes
# down what is offered, Ctrl-X ends it.
PS1= PS2= RPS1=
autoload -Uz compinit && compinit -C -d $LOCKRUN_TEST_DUMP
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-[OAD]\ * ]]; then
    builtin compadd "$@" # a question of the completion system itself
    return
  fi
  local -a hits
  builtin compadd -O hits "$@"
  print -rl -- $hits >> $LOCKRUN_TEST_OUT
  builtin compadd "$@"
}
finish() { exit }
zle -N finish
bindkey '^I' complete-word
bindkey '^X' finish
LISTMAX=10000
source $LOCKRUN_TEST_SCRIPT
print SET"UP" # not what is echoed of this line
