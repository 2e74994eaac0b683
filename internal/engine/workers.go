package engine

// workers run the tasks of jobs in goroutines that go on to the next task. A new goroutine
// begins with a stack of 2 kB, and one attempt grows it several times, which costs more
// than anything else that the engine does for a job.
type workers struct {
	tasks chan func()
	over  chan struct{}
}

func newWorkers() workers { return workers{tasks: make(chan func()), over: make(chan struct{})} }

// run runs a task in a worker that waits for one, or in a new worker. So there are as many
// workers as tasks ran at one time, which the engine's permits bound.
func (w workers) run(task func()) {
	select {
	case w.tasks <- task:
	default:
		go w.work(task)
	}
}

func (w workers) work(task func()) {
	for {
		task()
		select {
		case task = <-w.tasks:
		case <-w.over:
			return
		}
	}
}

// end lets the workers return. No task may be run after it.
func (w workers) end() { close(w.over) }
