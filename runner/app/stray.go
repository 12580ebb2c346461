package app

import (
	"strconv"
)

// stray is a word in a place where none belongs, for a message. Behind the
// address of a server it may be the rest of a password that was not quoted.
func (s *settings) stray(word string) string {
	if !s.mayRepeat(word) {
		return "a word (is something not quoted?)"
	}
	return strconv.Quote(word)
}

// strayCommand is such a word as the command that it may have been meant to be.
func (s *settings) strayCommand(word string) string {
	if !s.mayRepeat(word) {
		return "COMMAND"
	}
	return word
}

func (s *settings) mayRepeat(word string) bool {
	return onlyPlain(word, "._/-", 64) && len(s.given["postgres"]) == 0 && len(s.given["redis"]) == 0
}
