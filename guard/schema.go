package guard

import (
	"errors"
	"fmt"
	"io/fs"
)

// Schema is the SQL of a store's schema, version by version: the first makes it,
// each later one turns the schema of the version before into its own. So a new
// version is one more file, and what is in an old one is never changed again.
//
// The libraries for this keep tables and session locks of their own. The version
// belongs into the table meta, which each acquire reads; all steps belong into
// one transaction; and a session lock does not survive a pooler.
type Schema []string

// ReadSchema reads the files schema.sql, schema_2.sql, and so on. It panics when
// there is none: the files are part of the program.
func ReadSchema(files fs.FS) Schema {
	var s Schema
	for name := "schema.sql"; ; name = fmt.Sprintf("schema_%d.sql", len(s)+1) {
		text, err := fs.ReadFile(files, name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && len(s) > 0:
			return s
		case err != nil:
			panic(err)
		}
		s = append(s, string(text))
	}
}

// Change is what an init has done.
type Change int

// The changes.
const (
	Unchanged Change = iota
	Created
	Upgraded
)

// Version is the latest version.
func (s Schema) Version() int { return len(s) }
