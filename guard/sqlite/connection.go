package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// connection is a connection of the driver without database/sql around it: the
// pool, and a goroutine for each statement that waits for its context to end,
// cost a run more than its statements do. No call waits for others, what is busy
// fails at once, so none of them needs a context.
type connection struct {
	driver.Conn
	driver.ExecerContext
	driver.QueryerContext
}

// connect opens a database by the name that it has for the driver.
func connect(name string) (*connection, error) {
	if err := setUp(); err != nil {
		return nil, err
	}
	connector, err := sqlite.NewConnector(name)
	if err != nil {
		return nil, err
	}
	conn, err := connector.Connect(context.Background())
	if err != nil {
		return nil, err
	}
	execer, canExec := conn.(driver.ExecerContext)
	queryer, canQuery := conn.(driver.QueryerContext)
	if !canExec || !canQuery {
		_ = conn.Close()
		return nil, fmt.Errorf("the driver's connection is a %T", conn)
	}
	return &connection{conn, execer, queryer}, nil
}

// setUp sets what holds for all connections of the process.
var setUp = sync.OnceValue(func() error {
	// A commit needs its data and the length of the file on disk, not the time of
	// the change. Where there is no fdatasync, SQLite goes on with what it has.
	if _, err := sqlite.Fdatasync(true); err != nil && !errors.Is(err, sqlite.ErrFdatasyncUnavailable) {
		return err
	}
	tls := libc.NewTLS()
	defer tls.Close()
	entry := keepLog
	if rc := sqlite3.Xsqlite3_auto_extension(tls, *(*uintptr)(unsafe.Pointer(&entry))); rc != sqlite3.SQLITE_OK {
		return fmt.Errorf("set up SQLite: result %d", rc)
	}
	return nil
})

// keepLog is an extension that SQLite loads into each connection that is opened.
// It lets the write-ahead log be when the last connection closes. Else each run
// would remove it, for the next one to make it anew, and wait for the disk three
// times more than its commits do. What was committed is as durable in the log as
// it is in the database, and who opens that next reads both.
func keepLog(tls *libc.TLS, db, _, _ uintptr) int32 {
	const size = 2 * 8 // two arguments
	args := tls.Alloc(size)
	defer tls.Free(size)
	return sqlite3.Xsqlite3_db_config(tls, db, sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, libc.VaList(args, int32(1), uintptr(0)))
}

// exec runs one statement and tells how many rows it changed. Arguments are
// those of database/sql.
func (c *connection) exec(statement string, args ...any) (int64, error) {
	values, err := toValues(args)
	if err != nil {
		return 0, err
	}
	done, err := c.ExecContext(context.Background(), statement, values)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// query calls each for the rows of a result, until that returns an error.
func (c *connection) query(each func(row) error, statement string, args ...any) error {
	return c.queryWithin(context.Background(), each, statement, args...)
}

// queryWithin is a query that ends with ctx.
func (c *connection) queryWithin(ctx context.Context, each func(row) error, statement string, args ...any) (err error) {
	values, err := toValues(args)
	if err != nil {
		return err
	}
	rows, err := c.QueryContext(ctx, statement, values)
	if err != nil {
		return err
	}
	defer func() {
		if failed := rows.Close(); err == nil {
			err = failed
		}
	}()
	for {
		columns := make([]driver.Value, len(rows.Columns()))
		if err := rows.Next(columns); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := each(row{columns: columns}); err != nil {
			return err
		}
	}
}

// errEnough ends a query early.
var errEnough = errors.New("no more rows are wanted")

// row returns the first row of a result.
func (c *connection) row(statement string, args ...any) row {
	return c.rowWithin(context.Background(), statement, args...)
}

// rowWithin is a row whose query ends with ctx.
func (c *connection) rowWithin(ctx context.Context, statement string, args ...any) row {
	first := row{err: sql.ErrNoRows}
	err := c.queryWithin(ctx, func(r row) error {
		first = r
		return errEnough
	}, statement, args...)
	if err != nil && !errors.Is(err, errEnough) {
		first.err = err
	}
	return first
}

func toValues(args []any) ([]driver.NamedValue, error) {
	values := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		named, _ := arg.(sql.NamedArg)
		if named.Name != "" {
			arg = named.Value
		}
		value, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
		values[i] = driver.NamedValue{Name: named.Name, Ordinal: i + 1, Value: value}
	}
	return values, nil
}

// row is a row of a result, or the reason why there is none.
type row struct {
	columns []driver.Value
	err     error
}

// Scan copies the columns to where dest points. It returns [sql.ErrNoRows] when
// there is no row.
func (r row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	if len(dest) != len(r.columns) {
		return fmt.Errorf("%d columns for %d variables", len(r.columns), len(dest))
	}
	for i, column := range r.columns {
		if err := assign(dest[i], column); err != nil {
			return fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	return nil
}

// assign copies a column of a strict table to a variable of its type; only a
// pointer can be null.
func assign(dest any, column driver.Value) error {
	if s, ok := dest.(sql.Scanner); ok {
		return s.Scan(column)
	}
	to := reflect.ValueOf(dest).Elem()
	if to.Kind() == reflect.Pointer {
		if column == nil {
			to.SetZero()
			return nil
		}
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	number, isNumber := column.(int64)
	text, isText := column.(string)
	switch {
	case isText && to.Kind() == reflect.String:
		to.SetString(text)
	case isNumber && to.CanInt():
		to.SetInt(number)
	case isNumber && to.Kind() == reflect.Bool:
		to.SetBool(number != 0)
	default:
		return fmt.Errorf("a value of type %T for a variable of type %s", column, to.Type())
	}
	return nil
}
