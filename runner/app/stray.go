package app

import (
	"regexp"
	"strconv"
)

// plainWord is a word that is safe to repeat, by its looks.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,64}$`)

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
	return plainWord.MatchString(word) && len(s.given["postgres"]) == 0 && len(s.given["redis"]) == 0
}
