package app

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"sync"

	"go.yaml.in/yaml/v3"

	"lockrun/locks"
)

// systemConfig is read when no other file is named and it is there.
const systemConfig = "/etc/lockrun.yaml"

// configFile is what a file says of options, by their long names.
type configFile struct {
	path   string
	values map[string][]string
}

// notInFile are the options that belong to a command line alone.
var notInFile = []string{"config", "quiet", "verbose", "version", "help"}

// readFile reads the config file of a command that takes one. Every fault in it
// is an error, also where another source is stronger: a file that is not what it
// seems must not be half believed.
func (s *settings) readFile() error {
	if !slices.ContainsFunc(s.options, func(o option) bool { return o.name == "config" }) {
		return nil
	}
	path, from := s.text("config", systemConfig)
	where := s.where("config")
	if from == fromDefault {
		where = "config"
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	if from == fromFlag && path == "" {
		return usagef("--config is empty")
	}
	content, mode, err := readConfigFile(path)
	if err != nil {
		return usagef("%s: %w", where, err)
	}
	values, err := parseConfig(content)
	if err != nil {
		return usagef("%s: %q %w", where, path, err)
	}
	if can := sharedWith(mode); can != "" && slices.ContainsFunc(append(values["postgres"], values["redis"]...), holdsPassword) {
		return &locks.SetupError{
			What: where, Err: fmt.Errorf("%q holds a password and others can %s it (mode %04o)", path, can, mode.Perm()),
			Next: fmt.Sprintf("chmod 600 %q, or put the password into a file of its own and write file:PATH", path),
		}
	}
	s.file = configFile{path, values}
	return nil
}

func readConfigFile(path string) (content []byte, mode fs.FileMode, err error) {
	if path == os.DevNull { // no file at all, not even the system's
		return nil, 0, nil
	}
	return locks.ReadRegular(path)
}

// yamlLine finds the only part of the library's errors that is shown: the rest
// may quote a password.
var yamlLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`line (\d+)`) })

// parseConfig reads a mapping of long names to values. Values are taken as they
// are written: 08:00 is no number of minutes, 2026-07-01 no time.
func parseConfig(content []byte) (map[string][]string, error) {
	var document, second yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(content))
	err := d.Decode(&document)
	if err == nil {
		err = d.Decode(&second)
	}
	switch {
	case err == nil:
		return nil, fmt.Errorf("has a second document, see line %d", second.Line)
	case !errors.Is(err, io.EOF):
		if m := yamlLine().FindStringSubmatch(err.Error()); m != nil {
			return nil, fmt.Errorf("is no YAML, see line %s", m[1])
		}
		return nil, errors.New("is no YAML")
	}
	values := map[string][]string{}
	if len(document.Content) == 0 {
		return values, nil // empty, or nothing but comments
	}
	top := document.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return values, nil
	}
	if top.Kind != yaml.MappingNode {
		return nil, errors.New("is no mapping: write each option as name: value")
	}
	for i := 0; i < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		o, err := fileOption(key)
		if err != nil {
			return nil, err
		}
		if _, twice := values[o.name]; twice {
			return nil, fmt.Errorf("has %s twice, see line %d", o.name, key.Line)
		}
		if values[o.name], err = fileValue(o, value); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// fileOption is the option that a key names.
func fileOption(key *yaml.Node) (option, error) {
	for _, o := range runOptions {
		if o.name == key.Value && key.Kind == yaml.ScalarNode && !slices.Contains(notInFile, o.name) {
			return o, nil
		}
	}
	if !isPlainKey(key.Value) {
		return option{}, fmt.Errorf("has a key in line %d that is no option", key.Line)
	}
	if near := nearest(key.Value, runOptions); near != "" && near != key.Value {
		return option{}, fmt.Errorf("has the unknown option %s in line %d, did you mean %s?", key.Value, key.Line, near)
	}
	return option{}, fmt.Errorf("has in line %d %s, which is no option of a file", key.Line, key.Value)
}

// fileValue reads the value of an option, which must be of the right type.
func fileValue(o option, value *yaml.Node) ([]string, error) {
	fault := func(want string) error {
		return fmt.Errorf("has for %s in line %d no %s", o.name, value.Line, want)
	}
	switch {
	case o.kind == takesNothing:
		if value.Kind != yaml.ScalarNode || value.Tag != "!!bool" {
			return nil, fault("true or false")
		}
		var on bool
		if err := value.Decode(&on); err != nil {
			return nil, fault("true or false")
		}
		return []string{map[bool]string{true: "1", false: "0"}[on]}, nil
	case o.kind == takesValues && value.Kind == yaml.SequenceNode:
		list := []string{}
		for _, v := range value.Content {
			if !isText(v) || v.Value == "" {
				return nil, fault("list of texts")
			}
			list = append(list, v.Value)
		}
		if len(list) == 0 {
			return nil, fault("list of texts")
		}
		return list, nil
	case o.kind == takesValues && isText(value) && value.Value != "":
		return fields(value.Value), nil
	case o.kind == takesValues:
		return nil, fault("list of texts")
	case !isText(value) || value.Value == "":
		return nil, fault("text or number")
	}
	return []string{value.Value}, nil
}

// isText tells whether a node is a single value that is no truth value and not
// nothing.
func isText(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && slices.Contains([]string{"!!str", "!!int", "!!float", "!!timestamp"}, n.Tag)
}
