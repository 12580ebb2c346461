package blackbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"lockrun/locks/locktest"
)

// must ends one of the programs below.
func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// backgroundMain is the program "background NAME COMMAND...": it runs a command with its output
// in NAME.out and NAME.err, its process id in NAME.pid and, in the end, its exit
// code or signal in NAME.status. The command has no terminal. An interrupt, which
// is how a script ends what still runs, kills it.
func backgroundMain() {
	name := os.Args[1]
	cmd := exec.Command(os.Args[2], os.Args[3:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := os.Create(name + ".out")
	must(err)
	errs, err := os.Create(name + ".err")
	must(err)
	cmd.Stdout, cmd.Stderr = out, errs
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	must(cmd.Start())
	go func() {
		<-interrupted
		_ = cmd.Process.Kill()
	}()
	must(writeWhole(name+".pid", strconv.Itoa(cmd.Process.Pid)))
	status := statusText(cmd.Wait())
	must(writeWhole(name+".status", status+"\n"))
}

// holdMain is the child "hold NAME": its process id is in NAME.up as soon as it
// runs, and it ends when NAME.go is there, with the exit code that is in it or
// with 0. A file with a code must be moved there whole.
func holdMain() {
	name := os.Args[1]
	must(writeWhole(name+".up", strconv.Itoa(os.Getpid())))
	for {
		text, err := os.ReadFile(name + ".go")
		if err == nil {
			code, _ := strconv.Atoi(strings.TrimSpace(string(text)))
			os.Exit(code)
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
}

// tickMain is the child "tick FILE [deaf]": it writes the time, in seconds since
// the epoch, to the file every few milliseconds until it is killed. When it is
// deaf, SIGTERM does not end it but is noted in the file as well.
func tickMain() {
	f, err := os.Create(os.Args[1])
	must(err)
	if len(os.Args) > 2 {
		deaf := make(chan os.Signal, 1)
		signal.Notify(deaf, syscall.SIGTERM)
		go func() {
			<-deaf
			_, err := f.WriteString("TERM\n")
			must(err)
		}()
	}
	for {
		_, err := fmt.Fprintf(f, "%.6f\n", float64(time.Now().UnixMicro())/1e6)
		must(err)
		time.Sleep(10 * time.Millisecond)
	}
}

// writeWhole makes a file that is never seen half written.
func writeWhole(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// query returns the rows of a query, a line each, columns separated by "|",
// NULL as "-".
func query(dsn, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	result, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, r := range result {
		for _, row := range r.Rows {
			for i, col := range row {
				if i > 0 {
					b.WriteByte('|')
				}
				if col == nil {
					col = []byte("-")
				}
				b.Write(col)
			}
			b.WriteByte('\n')
		}
	}
	return b.String(), nil
}

// sqlMain is the program "sql QUERY" of the scripts.
func sqlMain() {
	text, err := query(os.Getenv("PG"), os.Args[1])
	must(err)
	fmt.Print(text)
}

// redisNodeMain is the program "redis-node I COMMAND...": what node I (from 1)
// answers.
func redisNodeMain() {
	i, err := strconv.Atoi(os.Args[1])
	must(err)
	c := locktest.ClientFor(strings.Fields(os.Getenv("REDIS"))[i-1])
	command := make([]any, len(os.Args)-2)
	for i, word := range os.Args[2:] {
		command[i] = word
	}
	answer, err := c.Do(context.Background(), command...).Result()
	must(err)
	fmt.Println(answer)
}

// redisKeysMain is the program "redis-keys NAME": the keys of one lock on all
// nodes, a line each.
func redisKeysMain() {
	keys, err := keysOn(strings.Fields(os.Getenv("REDIS")), "lockrun:lock:"+os.Args[1])
	must(err)
	for _, k := range keys {
		fmt.Println(k)
	}
}

func keysOn(nodes []string, pattern string) ([]string, error) {
	var all []string
	for _, url := range nodes {
		c := locktest.ClientFor(url)
		keys, err := c.Keys(context.Background(), pattern).Result()
		_ = c.Close()
		if err != nil {
			return nil, err
		}
		all = append(all, keys...)
	}
	return all, nil
}
