package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lockrun/guard"
)

// stressTTL is so short that leases run out in the middle of transactions.
const stressTTL = 40 * time.Millisecond

// stress is contenders that take one name's lease from each other, each of them
// renewing it a few times and then dropping out, and jobs that go on writing for
// their run for a while after that.
type stress struct {
	*database
	fenced                      bool
	current                     atomic.Pointer[stressRun]
	takeOvers, renewals, writes atomic.Int64
	refused                     sync.Map // SQLSTATE to true
}

type stressRun struct {
	id    string
	token int64
}

// run lets it go on until done says so.
func (x *stress) run(done func() bool) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range 3 {
		s := New(config(x.TB, x.dsn), timing(x.TB, time.Minute))
		x.Cleanup(s.Close)
		wg.Go(func() { x.contend(ctx, s) })
	}
	for i := range 4 {
		conn := connectTo(x.TB, x.dsn)
		wg.Go(func() { x.job(ctx, conn, levels[i%len(levels)]) })
	}
	eventually(x.TB, "the stress shows what it is for", done)
}

func (x *stress) contend(ctx context.Context, s *Store) {
	for ctx.Err() == nil {
		r := request("eod", "")
		r.TTL = stressTTL
		a, err := s.Acquire(ctx, r)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			x.Errorf("acquire: %v", err)
			return
		case a.Verdict != guard.Granted:
			continue
		}
		x.takeOvers.Add(1)
		x.current.Store(&stressRun{r.RunID, a.Token})
		for range rand.IntN(4) {
			<-time.After(stressTTL / 4)
			if err = s.Renew(ctx, r); err != nil {
				break
			}
			x.renewals.Add(1)
		}
		if err != nil && !isLost(err) && ctx.Err() == nil {
			x.Errorf("renew: %v", err)
		}
	}
}

func (x *stress) job(ctx context.Context, conn *pgx.Conn, level pgx.TxIsoLevel) {
	for ctx.Err() == nil {
		run := x.current.Load()
		if run == nil {
			continue
		}
		for range 5 {
			err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
				if x.fenced {
					token, err := fenceIn(ctx, tx, run.id)
					if err != nil {
						return err
					}
					if token != run.token {
						return fmt.Errorf("the fence gave the token %d, the run has %d", token, run.token)
					}
				}
				_, err := tx.Exec(ctx, "INSERT INTO posting (token) VALUES ($1)", run.token)
				if err == nil {
					_, err = tx.Exec(ctx, "SELECT pg_sleep($1)", rand.Float64()*0.01)
				}
				return err
			})
			switch code := sqlState(err); {
			case err == nil:
				x.writes.Add(1)
				continue
			case ctx.Err() != nil:
				return
			case !slices.Contains([]string{"LR001", "LR002", "40001"}, code):
				x.Errorf("job at %s: %v", level, err)
				return
			default:
				x.refused.Store(code, true)
			}
		}
	}
}

// late is how many rows an older run wrote after a newer one.
func (x *stress) late() string {
	return x.text("SELECT count(*) FROM (SELECT token, max(token) OVER (ORDER BY id) AS newest FROM posting) p WHERE token < newest")
}

func newStress(t *testing.T, fenced bool) *stress {
	t.Helper()
	x := &stress{database: newDatabase(t), fenced: fenced}
	x.exec("CREATE TABLE posting (id bigserial PRIMARY KEY, token bigint NOT NULL)")
	return x
}

// TestFenceStress wants no late row, no deadlock, and no error but the refusals
// that the contract names, and shows that without the fence there are late rows.
func TestFenceStress(t *testing.T) {
	length := 10 * time.Second
	if testing.Short() {
		length = time.Second
	}
	x, end := newStress(t, true), time.Now().Add(length)
	x.run(func() bool { return time.Now().After(end) })
	if n := x.late(); n != "0" {
		t.Errorf("%s rows of an older run after a newer one's", n)
	}
	if n := x.text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != "0" {
		t.Errorf("%s deadlocks", n)
	}
	takeOvers, renewals, writes := x.takeOvers.Load(), x.renewals.Load(), x.writes.Load()
	if takeOvers < 3 || renewals < 3 || writes < 3 {
		t.Errorf("%d take-overs, %d renewals, %d writes: the test shows nothing", takeOvers, renewals, writes)
	}
	var codes []string
	x.refused.Range(func(code, _ any) bool { codes = append(codes, code.(string)); return true })
	slices.Sort(codes)
	t.Logf("%d take-overs, %d renewals, %d writes in %v; refused with %v", takeOvers, renewals, writes, length, codes)

	without := newStress(t, false)
	without.run(func() bool { return without.late() != "0" })
	t.Logf("without the fence: %s late rows after %d take-overs", without.late(), without.takeOvers.Load())
}
