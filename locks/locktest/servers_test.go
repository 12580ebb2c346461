package locktest

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestServersAnswer(t *testing.T) {
	ctx := context.Background()
	r := StartRedis(t)
	c := r.Client()
	defer func() { _ = c.Close() }()
	if err := c.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	r.RestartEmpty()
	if n := c.Exists(ctx, "k").Val(); n != 0 {
		t.Fatal("a restarted node still has its key")
	}
	p := SharedPostgres(t)
	b := StartPgBouncer(t, p, "postgres", "transaction", 2)
	for _, dsn := range []string{p.Database(t), b.DSN()} {
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
