// go-workflows: its tester, with mocked activities and a mocked clock; and its SQLite backend, in real time, for what the tester has not.
package order

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/sqlite"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/registry"
	"github.com/cschleiden/go-workflows/tester"
	"github.com/cschleiden/go-workflows/worker"
	"github.com/cschleiden/go-workflows/workflow"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
)

const day = 24 * time.Hour

// The delay before the first retry is the interval times the coefficient.
var charging = workflow.ActivityOptions{RetryOptions: workflow.RetryOptions{
	MaxAttempts: 21, FirstRetryInterval: time.Second, BackoffCoefficient: 2, MaxRetryInterval: time.Hour,
}}

func Charge(ctx context.Context, order string) error { return nil }
func Ship(ctx context.Context, order string) error   { return nil }
func Cancel(ctx context.Context, order string) error { return nil }

func Order(ctx workflow.Context, order string, pause time.Duration) (string, error) {
	if _, err := workflow.ExecuteActivity[any](ctx, charging, Charge, order).Get(ctx); err != nil {
		return "", err
	}
	if err := workflow.Sleep(ctx, pause); err != nil {
		return "", err
	}
	timing, cancel := workflow.WithCancel(ctx)
	result, next := "", Ship
	workflow.Select(ctx,
		workflow.Receive(workflow.NewSignalChannel[bool](ctx, "approve"), func(ctx workflow.Context, _ bool, ok bool) {
			cancel()
			result = "shipped"
		}),
		workflow.Await(workflow.ScheduleTimer(timing, 7*day), func(ctx workflow.Context, _ workflow.Future[any]) {
			result, next = "cancelled", Cancel
		}),
	)
	_, err := workflow.ExecuteActivity[any](ctx, workflow.DefaultActivityOptions, next, order).Get(ctx)
	return result, err
}

func tested() tester.WorkflowTester[string] {
	made := tester.NewWorkflowTester[string](Order)
	made.OnActivity(Ship, mock.Anything, "o-1").Return(nil)
	made.OnActivity(Cancel, mock.Anything, "o-1").Return(nil)
	return made
}

func TestRetries(t *testing.T) {
	made := tested()
	var calls []time.Time
	note := func(mock.Arguments) { calls = append(calls, made.Now()) }
	made.OnActivity(Charge, mock.Anything, "o-1").Run(note).Return(errors.New("no")).Times(20)
	made.OnActivity(Charge, mock.Anything, "o-1").Run(note).Return(nil).Once()
	made.Execute(context.Background(), "o-1", 30*day)
	require.Len(t, calls, 21)
	want := time.Duration(0)
	for n := 1; n <= 20; n++ {
		want += min(time.Second<<n, time.Hour)
	}
	require.Equal(t, want, calls[20].Sub(calls[0]))
}

func TestMonth(t *testing.T) {
	made := tested()
	made.OnActivity(Charge, mock.Anything, "o-1").Return(nil)
	began := made.Now()
	made.Execute(context.Background(), "o-1", 30*day)
	require.Equal(t, 37*day, made.Now().Sub(began))
}

func TestRace(t *testing.T) {
	for after, want := range map[time.Duration]string{34 * day: "shipped", 38 * day: "cancelled"} {
		made := tested()
		made.OnActivity(Charge, mock.Anything, "o-1").Return(nil)
		made.ScheduleCallback(after, func() { made.SignalWorkflow("approve", true) })
		made.Execute(context.Background(), "o-1", 30*day)
		got, err := made.WorkflowResult()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// A worker on the real backend, in real time. Who holds an activity for longer than a second without a sign of life has lost it.
func working(t *testing.T, path string, ship func(context.Context, string) error) (*client.Client, func()) {
	store := sqlite.NewSqliteBackend(path, sqlite.WithBackendOptions(
		backend.WithActivityLockTimeout(time.Second), backend.WithWorkflowLockTimeout(time.Second), backend.WithStickyTimeout(0)))
	options := worker.DefaultOptions
	options.ActivityHeartbeatInterval = time.Hour
	made := worker.New(store, &options)
	require.NoError(t, made.RegisterWorkflow(Order))
	require.NoError(t, made.RegisterActivity(Charge))
	require.NoError(t, made.RegisterActivity(Cancel))
	require.NoError(t, made.RegisterActivity(ship, registry.WithName("Ship")))
	ctx, stop := context.WithCancel(context.Background())
	require.NoError(t, made.Start(ctx))
	return client.New(store), func() { stop(); _ = made.WaitForCompletion(); _ = store.Close() }
}

func begun(t *testing.T, orders *client.Client) *workflow.Instance {
	ctx := context.Background()
	begun, err := orders.CreateWorkflowInstance(ctx, client.WorkflowInstanceOptions{InstanceID: "o-1"}, Order, "o-1", time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, orders.SignalWorkflow(ctx, "o-1", "approve", true))
	return begun
}

// The tester has no workers that could be lost; in real time it is seen that somebody else takes the activity after the lock's time.
func TestLostWorker(t *testing.T) {
	var calls atomic.Int32
	lost := make(chan struct{})
	orders, stop := working(t, filepath.Join(t.TempDir(), "orders.sqlite"), func(ctx context.Context, order string) error {
		if calls.Add(1) == 1 {
			<-lost
		}
		return nil
	})
	got, err := client.GetWorkflowResult[string](context.Background(), orders, begun(t, orders), 20*time.Second)
	close(lost)
	stop()
	require.NoError(t, err)
	require.Equal(t, "shipped", got)
	require.EqualValues(t, 2, calls.Load())
}

// A worker that stops, and another one on the same file: at one place.
func TestCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orders.sqlite")
	ship := func(ctx context.Context, order string) error { return nil }
	orders, stop := working(t, path, ship)
	instance := begun(t, orders)
	stop()
	orders, stop = working(t, path, ship)
	defer stop()
	got, err := client.GetWorkflowResult[string](context.Background(), orders, instance, 20*time.Second)
	require.NoError(t, err)
	require.Equal(t, "shipped", got)
}

// A signal can come twice; the report of an activity cannot be given by a test.
func TestTwice(t *testing.T) {
	made := tested()
	made.OnActivity(Charge, mock.Anything, "o-1").Return(nil)
	for range 2 {
		made.ScheduleCallback(34*day, func() { made.SignalWorkflow("approve", true) })
	}
	made.Execute(context.Background(), "o-1", 30*day)
	made.ActivityMock().AssertNumberOfCalls(t, "Ship", 1)
}
