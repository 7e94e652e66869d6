//! The engine with its prelude: every touch of QuickJS is here.

use std::sync::{Arc, Mutex, PoisonError};

use rquickjs::context::{EvalOptions, intrinsic};
use rquickjs::promise::PromiseState;
use rquickjs::{Context, Ctx, Function, IntoJs, Object, Persistent, Promise, Runtime, Value};

use super::budget::Budget;
use super::console::{Kept, Retention, Statement};
use super::message::{Intent, Request};
use super::{BindingReading, Limits};
use crate::failure::{CallFailure, CallFailureCode, CallOutcome};

/// What the engine's heap may grow by while the host's own hooks run, and in the frame after one that ran out of memory
/// (harness contract 3.5).
const HEADROOM: usize = 8 << 20;

/// A heap that cannot give so much is full.
const FULL_HEAP: u64 = 256 << 10;

/// The intrinsics of a realm. `Date`, `Proxy`, `performance` and weak references are never made.
type Intrinsics = (
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
);

/// What a thrown value says of itself.
#[derive(Debug, Default)]
pub(super) struct Thrown {
    pub(super) name: String,
    pub(super) message: String,
    pub(super) stack: String,
    /// The engine throws null when it cannot even make the error.
    pub(super) nothing: bool,
}

impl Thrown {
    /// What every exhaustion of the heap is reported as.
    pub(super) fn out_of_memory() -> Self {
        Self { name: "InternalError".into(), message: "out of memory".into(), ..Self::default() }
    }

    pub(super) fn is_out_of_memory(&self) -> bool {
        self.name == "InternalError" && self.message == "out of memory"
    }
}

/// The state of a frame's script.
pub(super) enum Script {
    Pending,
    Ended,
    Threw,
}

/// Where a frame's statements go.
type Sink = Arc<Mutex<Printed>>;

#[derive(Default)]
struct Printed {
    retention: Retention,
    statements: Vec<Statement>,
}

/// A realm's engine. Fields are dropped in order: nothing of the heap outlives its runtime.
pub(super) struct Js {
    script: Option<Persistent<Promise<'static>>>,
    hooks: Persistent<Object<'static>>,
    context: Context,
    runtime: Runtime,
    printed: Sink,
    memory: usize,
    stack: usize,
    /// The limit while a cell runs.
    cell_memory: usize,
    pub(super) budget: Budget,
}

impl Js {
    /// Makes a realm and runs the prelude.
    pub(super) fn open(limits: &Limits, budget: Budget) -> Result<Self, String> {
        let memory = usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX / 2).min(usize::MAX / 2);
        let stack = usize::try_from(limits.stack_bytes).map_err(|error| error.to_string())?;
        let runtime = Runtime::new().map_err(|error| error.to_string())?;
        runtime.set_max_stack_size(stack);
        runtime.set_memory_limit(memory.saturating_add(HEADROOM));
        let handler = budget.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || handler.poll())));
        let context = Context::custom::<Intrinsics>(&runtime).map_err(|error| error.to_string())?;
        let printed = Sink::default();
        let sink = printed.clone();
        let hooks = context
            .with(|ctx| -> rquickjs::Result<_> {
                let mut options = EvalOptions::default();
                options.filename = Some("realm.js".into());
                let prelude: Function = ctx.eval_with_options(include_str!("prelude.js"), options)?;
                let print = Function::new(ctx.clone(), move |text: rquickjs::String<'_>| keep(&sink, &text))?;
                let sealed = CallOutcome::Failure(CallFailure::new(
                    CallFailureCode::RunCompleted,
                    "The frame has called ctx.done or ctx.park; no further call runs.",
                ));
                let hooks: Object = prelude.call((print, sealed.reply().to_string()))?;
                Ok(Persistent::save(&ctx, hooks))
            })
            .map_err(|error| format!("the realm's prelude failed: {error}"))?;
        Ok(Self {
            script: None,
            hooks,
            context,
            runtime,
            printed,
            memory,
            stack,
            cell_memory: memory,
            budget,
        })
    }

    /// Calls a hook and looks at its answer. `None` when it threw, or did not answer what was asked for.
    fn hook<A, R>(
        &self,
        name: &str,
        arguments: A,
        read: impl for<'js> FnOnce(&Ctx<'js>, Value<'js>) -> rquickjs::Result<R>,
    ) -> Option<R>
    where
        A: for<'js> Arguments<'js>,
    {
        self.hook_within(self.cell_memory.saturating_add(HEADROOM), name, arguments, read)
    }

    /// A hook with a limit of its own for the heap.
    fn hook_within<A, R>(
        &self,
        memory: usize,
        name: &str,
        arguments: A,
        read: impl for<'js> FnOnce(&Ctx<'js>, Value<'js>) -> rquickjs::Result<R>,
    ) -> Option<R>
    where
        A: for<'js> Arguments<'js>,
    {
        self.runtime.set_memory_limit(memory);
        let answer = self.context.with(|ctx| {
            let run = || -> rquickjs::Result<R> {
                let hooks = self.hooks.clone().restore(&ctx)?;
                let hook: Function = hooks.get(name)?;
                let mut list = rquickjs::function::Args::new(ctx.clone(), 2);
                arguments.push(&ctx, &mut list)?;
                let value: Value = hook.call_arg(list)?;
                read(&ctx, value)
            };
            let answer = run();
            if answer.is_err() {
                ctx.catch();
            }
            answer.ok()
        });
        self.runtime.set_memory_limit(self.cell_memory);
        answer
    }

    /// The heap while texts are copied out of it: a copy has at most twice the bytes.
    fn copying(&self) -> usize {
        self.cell_memory.saturating_mul(3).saturating_add(HEADROOM)
    }

    /// A hook whose answer is not looked at.
    fn order<A: for<'js> Arguments<'js>>(&self, name: &str, arguments: A) -> bool {
        self.budget.enter_host();
        self.hook(name, arguments, |_, _| Ok(())).is_some()
    }

    /// Opens a frame. `relief` gives it the headroom for freeing what fills the heap.
    pub(super) fn open_frame(&mut self, relief: bool) -> bool {
        self.script = None;
        self.cell_memory = if relief { self.memory.saturating_add(HEADROOM) } else { self.memory };
        *self.printed.lock().unwrap_or_else(PoisonError::into_inner) = Printed::default();
        self.order("open", ())
    }

    /// Takes no request from here on; one that is made is rejected with the message.
    pub(super) fn close_frame(&self, message: &str) -> bool {
        self.order("close", (message,))
    }

    /// Shows another catalog.
    pub(super) fn catalog(&self, entries: &str) -> bool {
        self.order("catalog", (entries,))
    }

    /// The next queued request.
    ///
    /// # Errors
    /// Its texts do not fit the heap.
    pub(super) fn take(&self) -> Result<Option<Request>, ()> {
        self.budget.enter_host();
        self.hook_within(self.copying(), "take", (), |_, value| {
            let Some(slot) = value.into_object() else { return Ok(None) };
            let kind: String = slot.get("kind")?;
            if kind == "checkpoint" {
                return Ok(Some(Request::Checkpoint));
            }
            Ok(Some(Request::Call {
                name: slot.get("name")?,
                input: slot.get("input")?,
                at: slot.get("at")?,
            }))
        })
        .ok_or(())
    }

    /// Whether a request is queued.
    pub(super) fn queued(&self) -> bool {
        self.budget.enter_host();
        self.hook("queued", (), |_, value| Ok(value.as_number().is_some_and(|count| count > 0.0)))
            .unwrap_or(false)
    }

    /// Resolves a request with a JSON text.
    pub(super) fn settle(&self, ordinal: u64, reply: &str) -> bool {
        self.order("settle", (ordinal, reply))
    }

    /// Rejects every request that has no reply.
    pub(super) fn reject_all(&self, message: &str) -> bool {
        self.order("rejectAll", (message,))
    }

    /// Whether so many bytes of the cells' heap are free, after a collection if need be.
    pub(super) fn free(&self, bytes: u64) -> bool {
        if self.free_now(bytes) {
            return true;
        }
        self.runtime.run_gc();
        self.free_now(bytes)
    }

    fn free_now(&self, bytes: u64) -> bool {
        self.budget.enter_host();
        // Without the headroom of the other hooks: what counts is what cells can have.
        self.hook_within(self.cell_memory, "free", (bytes,), |_, value| Ok(value.as_bool().unwrap_or(false)))
            .unwrap_or(false)
    }

    /// Whether the heap is full before garbage is collected.
    pub(super) fn crowded(&self) -> bool {
        !self.free_now(FULL_HEAP)
    }

    /// Whether the heap is full.
    pub(super) fn full(&self) -> bool {
        !self.free(FULL_HEAP)
    }

    /// How many statements were printed after the room was full.
    pub(super) fn unread(&self) -> u64 {
        self.budget.enter_host();
        self.hook("unread", (), |_, value| value.get::<u64>()).unwrap_or(0)
    }

    /// What the cell latched, and what it justified; none when that does not fit the heap.
    pub(super) fn latched(&self) -> Option<(Intent, Option<String>)> {
        self.budget.enter_host();
        self.hook_within(self.copying(), "latched", (), |_, value| {
            let latched = Object::from_value(value)?;
            let kind: String = latched.get("kind")?;
            let intent = match kind.as_str() {
                "done" => Intent::Done { output: latched.get("value")? },
                "park" => Intent::Park { reason: latched.get("value")?, message: latched.get("message")? },
                _ => Intent::None,
            };
            Ok((intent, latched.get("justification")?))
        })
    }

    /// The statements since the last look.
    pub(super) fn printed(&self) -> Vec<Statement> {
        std::mem::take(&mut self.printed.lock().unwrap_or_else(PoisonError::into_inner).statements)
    }

    /// The names that cells have bound; none when the look at them did not end in its budget.
    pub(super) fn probe(&self) -> Option<Vec<BindingReading>> {
        self.budget.enter_probe();
        let text = self.hook("probe", (), |_, value| value.get::<String>())?;
        let rows: Vec<(String, String, String)> = serde_json::from_str(&text).ok()?;
        Some(rows.into_iter().map(|(name, r#type, size)| BindingReading { name, r#type, size }).collect())
    }

    /// Starts a program. It runs until its first `await` on something that is pending.
    ///
    /// # Errors
    /// What was thrown before the script's promise existed: the program does not compile.
    pub(super) fn evaluate(&mut self, file: String, text: &str) -> Result<(), Thrown> {
        self.runtime.set_memory_limit(self.cell_memory);
        self.budget.enter_cell();
        let started = self.context.with(|ctx| {
            let mut options = EvalOptions::default();
            options.strict = false;
            options.promise = true;
            options.filename = Some(file);
            match ctx.eval_with_options::<Promise, _>(text, options) {
                Ok(promise) => Ok(Persistent::save(&ctx, promise)),
                Err(_) => Err(Persistent::save(&ctx, ctx.catch())),
            }
        });
        self.budget.leave_cell();
        match started {
            Ok(promise) => {
                self.script = Some(promise);
                Ok(())
            }
            Err(thrown) => Err(self.describe(thrown)),
        }
    }

    /// Runs the cell's jobs until none is left, `most` have run or the budget tripped.
    pub(super) fn run_jobs(&self, most: Option<u64>) {
        self.runtime.set_memory_limit(self.cell_memory);
        self.budget.enter_cell();
        let mut ran = 0;
        while most.is_none_or(|most| ran < most) && (most.is_some() || self.budget.trip().is_none()) {
            match self.runtime.execute_pending_job() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    error.0.with(|ctx| ctx.catch().is_null());
                }
            }
            ran += 1;
        }
        self.budget.leave_cell();
    }

    /// Empties the job queue without running code of a cell: with no stack, each job fails as it starts.
    pub(super) fn drop_jobs(&self) {
        if !self.runtime.is_job_pending() {
            return;
        }
        self.runtime.set_max_stack_size(1);
        self.budget.enter_host();
        while self.runtime.is_job_pending() {
            if let Err(error) = self.runtime.execute_pending_job() {
                error.0.with(|ctx| ctx.catch().is_null());
            }
        }
        self.runtime.set_max_stack_size(self.stack);
    }

    /// How the frame's script stands.
    pub(super) fn script(&self) -> Script {
        let Some(script) = self.script.clone() else { return Script::Pending };
        self.context.with(|ctx| match script.restore(&ctx).map(|promise| promise.state()) {
            Ok(PromiseState::Resolved) => Script::Ended,
            Ok(PromiseState::Rejected) => Script::Threw,
            Ok(PromiseState::Pending) | Err(_) => Script::Pending,
        })
    }

    /// What the frame's script threw.
    pub(super) fn thrown(&self) -> Thrown {
        let Some(script) = self.script.clone() else { return Thrown::default() };
        let thrown = self.context.with(|ctx| {
            let promise = script.restore(&ctx).ok()?;
            // The result of a rejected promise is its reason, thrown.
            promise.result::<Value>()?.err()?;
            Some(Persistent::save(&ctx, ctx.catch()))
        });
        thrown.map_or_else(Thrown::default, |thrown| self.describe(thrown))
    }

    fn describe(&self, thrown: Persistent<Value<'static>>) -> Thrown {
        let nothing = self.context.with(|ctx| {
            thrown
                .clone()
                .restore(&ctx)
                .is_ok_and(|value| value.is_null() || value.type_of() == rquickjs::Type::Uninitialized)
        });
        self.budget.enter_probe();
        let described = if nothing {
            Some(Thrown { name: "Error".into(), message: "null".into(), ..Thrown::default() })
        } else {
            self.hook("describe", (thrown,), |_, value| {
                let said = Object::from_value(value)?;
                Ok(Thrown {
                    name: said.get("name")?,
                    message: said.get("message")?,
                    stack: said.get("stack")?,
                    nothing: false,
                })
            })
        };
        let described = described.unwrap_or_else(|| Thrown {
            name: "Error".into(),
            message: "the thrown value cannot be read".into(),
            ..Thrown::default()
        });
        Thrown { nothing, ..described }
    }

    /// Collects garbage.
    pub(super) fn collect(&self) {
        self.runtime.run_gc();
    }
}

/// Takes a statement in: 0 when it is kept, 1 when it is the last one, 2 when there is no room.
fn keep(sink: &Sink, text: &rquickjs::String<'_>) -> i32 {
    let text = text.to_string().unwrap_or_else(|_| "[unprintable string: it does not fit the heap]".into());
    let mut printed = sink.lock().unwrap_or_else(PoisonError::into_inner);
    match printed.retention.keep(text) {
        Kept::Whole(statement) => {
            printed.statements.push(statement);
            0
        }
        Kept::Last(statement) => {
            printed.statements.push(statement);
            1
        }
        Kept::No => 2,
    }
}

/// Arguments of a hook.
trait Arguments<'js> {
    fn push(self, ctx: &Ctx<'js>, list: &mut rquickjs::function::Args<'js>) -> rquickjs::Result<()>;
}

impl<'js> Arguments<'js> for () {
    fn push(self, _: &Ctx<'js>, _: &mut rquickjs::function::Args<'js>) -> rquickjs::Result<()> {
        Ok(())
    }
}

impl<'js, A: IntoJs<'js>> Arguments<'js> for (A,) {
    fn push(self, _: &Ctx<'js>, list: &mut rquickjs::function::Args<'js>) -> rquickjs::Result<()> {
        list.push_arg(self.0)
    }
}

impl<'js, A: IntoJs<'js>, B: IntoJs<'js>> Arguments<'js> for (A, B) {
    fn push(self, _: &Ctx<'js>, list: &mut rquickjs::function::Args<'js>) -> rquickjs::Result<()> {
        list.push_arg(self.0)?;
        list.push_arg(self.1)
    }
}
