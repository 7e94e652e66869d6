// Runs once in a fresh realm, before any cell (harness contract 3). It answers the hooks that the host calls, hands
// `ctx` and `console` to the cells and takes away what a cell may not have.
//
// Rules of this file: every intrinsic is captured here, before a cell can replace it; nothing iterates by protocol;
// no method is looked up on a value; objects that this file makes for itself have no prototype, descriptors included,
// because a descriptor's absent members would be looked up on Object.prototype.
(function (hostPrint, sealedText) {
  "use strict";

  const G = globalThis;
  const Obj = Object;
  const Err = Error;
  const TypeErr = TypeError;
  const RangeErr = RangeError;
  const P = Promise;
  const Buffer = ArrayBuffer;
  const Str = String;
  const apply = Reflect.apply;
  const ownKeys = Reflect.ownKeys;
  const remove = Reflect.deleteProperty;
  const define = Reflect.defineProperty;
  const getDescriptor = Obj.getOwnPropertyDescriptor;
  const getPrototype = Obj.getPrototypeOf;
  const enumerableKeys = Obj.keys;
  const hasOwn = Obj.hasOwn;
  const freeze = Obj.freeze;
  const isArray = Array.isArray;
  const isError = Err.isError;
  const parse = JSON.parse;
  const quote = JSON.stringify;
  const sort = Array.prototype.sort;
  const then = P.prototype.then;
  const wellFormed = Str.prototype.isWellFormed;
  const toWellFormed = Str.prototype.toWellFormed;
  const sourceOf = Function.prototype.toString;
  const symbolText = Symbol.prototype.toString;
  const unboxNumber = Number.prototype.valueOf;
  const unboxString = Str.prototype.valueOf;
  const unboxBoolean = Boolean.prototype.valueOf;
  const NumberPrototype = Number.prototype;
  const StringPrototype = Str.prototype;
  const BooleanPrototype = Boolean.prototype;
  const ObjectPrototype = Obj.prototype;
  const ArrayPrototype = Array.prototype;
  const typedLength = getDescriptor(getPrototype(Uint8Array.prototype), "length").get;
  const spreadable = Symbol.isConcatSpreadable;

  const data = (value) =>
    ({ __proto__: null, value, writable: true, enumerable: true, configurable: true });
  const fixed = (value) =>
    ({ __proto__: null, value, writable: false, enumerable: false, configurable: false });

  // ---- values into the host ---------------------------------------------------------------------------------------

  const MAX_DEPTH = 128;

  function refuse(label) {
    throw new TypeErr(label + " must be JSON-serializable");
  }

  // The JSON text of a value. Only data properties are read, by descriptor: no code of the cell runs here.
  function encode(value, label) {
    return write(value, label, 0, null);
  }

  function writeString(text, label) {
    if (!apply(wellFormed, text, [])) refuse(label);
    return quote(text);
  }

  function write(value, label, depth, path) {
    if (value === null) return "null";
    const type = typeof value;
    if (type === "string") return writeString(value, label);
    if (type === "boolean") return value ? "true" : "false";
    if (type === "number") {
      if (value - value !== 0) refuse(label);
      return "" + value;
    }
    if (type !== "object" || depth >= MAX_DEPTH) refuse(label);
    for (let up = path; up !== null; up = up.next) if (up.value === value) refuse(label);
    const here = { __proto__: null, value, next: path };
    const prototype = getPrototype(value);
    let out;
    if (isArray(value)) {
      if (prototype !== ArrayPrototype) refuse(label);
      const length = value.length;
      out = "[";
      for (let i = 0; i < length; i++) {
        const member = getDescriptor(value, i);
        if (member === undefined || !hasOwn(member, "value")) refuse(label);
        if (i > 0) out += ",";
        out += write(member.value, label, depth + 1, here);
      }
      return out + "]";
    }
    if (prototype !== ObjectPrototype && prototype !== null) refuse(label);
    const keys = enumerableKeys(value);
    const count = keys.length;
    out = "{";
    for (let i = 0; i < count; i++) {
      const key = keys[i];
      const member = getDescriptor(value, key);
      if (member === undefined) continue;
      if (!hasOwn(member, "value")) refuse(label);
      if (member.value === undefined) continue;
      if (out !== "{") out += ",";
      out += writeString(key, label) + ":" + write(member.value, label, depth + 1, here);
    }
    return out + "}";
  }

  // ---- console ----------------------------------------------------------------------------------------------------

  const CYCLE = { __proto__: null };
  const BIGINT = { __proto__: null };

  // The canonical JSON of a value, walked as JSON.stringify would, toJSON left out. Answers undefined for what an
  // object drops. Getters run, at the cell's cost.
  function show(value, path) {
    if (value === null) return "null";
    switch (typeof value) {
      case "string":
        return quote(apply(toWellFormed, value, []));
      case "boolean":
        return value ? "true" : "false";
      case "number":
        return value - value === 0 ? "" + value : "null";
      case "bigint":
        throw BIGINT;
      case "object":
        break;
      default:
        return undefined;
    }
    for (let up = path; up !== null; up = up.next) if (up.value === value) throw CYCLE;
    const here = { __proto__: null, value, next: path };
    if (isArray(value)) {
      let out = "[";
      const length = value.length;
      for (let i = 0; i < length; i++) {
        const text = show(value[i], here);
        out += (i > 0 ? "," : "") + (text === undefined ? "null" : text);
      }
      return out + "]";
    }
    const prototype = getPrototype(value);
    if (prototype === NumberPrototype || prototype === StringPrototype || prototype === BooleanPrototype) {
      const unbox = prototype === NumberPrototype ? unboxNumber
        : prototype === StringPrototype ? unboxString : unboxBoolean;
      let inner = CYCLE;
      try {
        inner = apply(unbox, value, []);
      } catch {
        // Not a boxed value, only a child of its prototype.
      }
      if (inner !== CYCLE) return show(inner, here);
    }
    const keys = apply(sort, enumerableKeys(value), []);
    const count = keys.length;
    let out = "{";
    for (let i = 0; i < count; i++) {
      const text = show(value[keys[i]], here);
      if (text === undefined) continue;
      out += (out === "{" ? "" : ",") + quote(apply(toWellFormed, keys[i], [])) + ":" + text;
    }
    return out + "}";
  }

  function unprintable(kind, why) {
    return "[unprintable " + kind + ": " + why + " — print its parts, or convert it first]";
  }

  function kindOf(value) {
    return isArray(value) ? "array" : typeof value;
  }

  // An argument of console.log as text.
  function print(value) {
    try {
      switch (typeof value) {
        case "string":
          return apply(toWellFormed, value, []);
        case "undefined":
          return "undefined";
        case "function":
          return apply(toWellFormed, apply(sourceOf, value, []), []);
        case "symbol":
          return apply(toWellFormed, apply(symbolText, value, []), []);
      }
      if (isError(value)) return errorText(value.name, value.message);
      return show(value, null);
    } catch (thrown) {
      if (thrown === CYCLE) return unprintable(kindOf(value), "it holds itself");
      if (thrown === BIGINT) {
        return unprintable(kindOf(value), typeof value === "bigint" ? "JSON has no bigint" : "it holds a bigint");
      }
      return unprintable(kindOf(value), "reading it threw");
    }
  }

  function errorText(name, message) {
    name = typeof name === "string" ? apply(toWellFormed, name, []) : "Error";
    message = typeof message === "string" ? apply(toWellFormed, message, []) : "";
    if (message === "") return name;
    return name === "" ? message : name + ": " + message;
  }

  let full = false;
  let unread = 0;

  function statement(...values) {
    if (full) {
      unread += 1;
      return;
    }
    const count = values.length;
    let text = "";
    for (let i = 0; i < count; i++) text += (i > 0 ? " " : "") + print(values[i]);
    // A getter above may have printed and filled the room.
    const kept = full ? 2 : hostPrint(text);
    if (kept !== 0) full = true;
    if (kept === 2) unread += 1;
  }

  // ---- ctx --------------------------------------------------------------------------------------------------------

  // Requests of the frame, by ordinal: those from `head` up to `next` are queued, those before are with the host.
  let slots = { __proto__: null };
  let head = 0;
  let next = 0;
  let closed = true;
  let closedMessage = "The cell was interrupted";
  let sealed = false;
  let intent = null;
  let justification = undefined;
  let flows = freeze({ __proto__: null });

  // Resolving looks `then` up on an object, and the prototypes are the cells'. An own `then` is there for that moment,
  // so that no reply is ever taken for a thenable. A reply's own `then` is data, which is not callable.
  function fulfil(resolve, value) {
    if (typeof value !== "object" || value === null || hasOwn(value, "then")) {
      resolve(value);
      return;
    }
    define(value, "then", data(undefined));
    resolve(value);
    remove(value, "then");
  }

  function rejected(error) {
    return new P((_, reject) => reject(error));
  }

  function runCompleted() {
    return new P((resolve) => fulfil(resolve, parse(sealedText)));
  }

  function queue(kind, name, input, at) {
    const slot = { __proto__: null, kind, name, input, at, resolve: undefined, reject: undefined };
    const promise = new P((resolve, reject) => {
      slot.resolve = resolve;
      slot.reject = reject;
    });
    slots[next] = slot;
    next += 1;
    return promise;
  }

  function handleText(value) {
    try {
      return encode(value, "options.at");
    } catch {
      return "null";
    }
  }

  function call(name, input, options) {
    if (typeof name !== "string") return rejected(new TypeErr("ctx.call takes a flow's name first"));
    if (closed) return rejected(new Err(closedMessage));
    if (sealed) return runCompleted();
    const text = input === undefined ? "null" : encode(input, "ctx.call input");
    const flow = apply(toWellFormed, name, []);
    let at = undefined;
    if (typeof options === "object" && options !== null && hasOwn(options, "at")) at = options.at;
    if (at === undefined) return queue("call", flow, text, undefined);
    if (sealed) return runCompleted();
    const marker = { __proto__: null, text: "null" };
    let waits = false;
    try {
      apply(then, at, [(value) => { marker.text = handleText(value); }, () => {}]);
      waits = true;
    } catch {
      // Not a promise.
    }
    if (!waits) marker.text = handleText(at);
    return queue("call", flow, text, marker);
  }

  const members = {
    call(name, input = undefined, options = undefined) {
      return call(name, input, options);
    },
    done(output) {
      if (sealed) return;
      if (arguments.length === 0) throw new TypeErr("ctx.done takes the run's output; pass null for none");
      const value = output === undefined ? "null" : encode(output, "ctx.done output");
      if (closed) return;
      intent = { __proto__: null, kind: "done", value, message: "null" };
      sealed = true;
    },
    park(reason, message = undefined) {
      if (sealed) return;
      const value = encode(reason, "ctx.park reason");
      const said = message === undefined ? "null" : encode(message, "ctx.park message");
      if (closed) return;
      intent = { __proto__: null, kind: "park", value, message: said };
      sealed = true;
    },
    justify(text) {
      const value = encode(text, "ctx.justify text");
      if (!closed) justification = value;
    },
    checkpoint() {
      if (closed) return rejected(new Err(closedMessage));
      if (sealed) return runCompleted();
      return queue("checkpoint", "", "null", undefined);
    },
  };
  const flowsGetter = getDescriptor({ get flows() { return flows; } }, "flows").get;
  const consoleMembers = {
    log(...values) { apply(statement, undefined, values); },
    info(...values) { apply(statement, undefined, values); },
    warn(...values) { apply(statement, undefined, values); },
    error(...values) { apply(statement, undefined, values); },
  };

  function deepFreeze(value) {
    if (typeof value !== "object" || value === null) return value;
    const keys = enumerableKeys(value);
    for (let i = 0; i < keys.length; i++) deepFreeze(value[keys[i]]);
    return freeze(value);
  }

  function install(name, source, getter) {
    const target = { __proto__: null };
    const keys = enumerableKeys(source);
    for (let i = 0; i < keys.length; i++) define(target, keys[i], data(freeze(source[keys[i]])));
    if (getter) {
      define(target, "flows", { __proto__: null, get: freeze(getter), set: undefined, enumerable: true, configurable: true });
      define(target, "base", data(freeze({ checkpoint: "base" })));
    }
    define(G, name, fixed(freeze(target)));
  }

  // ---- builtins that loop natively without asking the host ----------------------------------------------------------
  //
  // These are the loops that a length alone makes endless. What is quadratic in the cell's own data (a search for a long
  // text in a long text, a huge bigint as text) is bounded by the heap alone, and so is a native consumer of an array's
  // iterator (Set methods, Iterator.prototype.drop): a host that runs untrusted cells has a process to kill.

  const MAX_LENGTH = 8388608;

  function tooLong(name) {
    throw new RangeErr(name + " works on at most " + MAX_LENGTH + " elements here");
  }

  // The length that a native loop over `value` would take; throws when it is too long or could change between this
  // look and that one.
  function checkLength(value, name) {
    if (value === null || value === undefined) return 0;
    const object = Obj(value);
    for (let holder = object; holder !== null; holder = getPrototype(holder)) {
      const found = getDescriptor(holder, "length");
      if (found === undefined) continue;
      let length;
      if (hasOwn(found, "value")) {
        length = found.value;
        const type = typeof length;
        if (type === "undefined" || type === "symbol" || type === "bigint") return 0;
        if (type === "function" || (type === "object" && length !== null)) tooLong(name);
        length = +length;
      } else if (found.get === typedLength) {
        try {
          length = apply(typedLength, object, []);
        } catch {
          return 0;
        }
      } else {
        tooLong(name);
      }
      if (length > MAX_LENGTH) tooLong(name);
      return length > 0 ? length : 0;
    }
    return 0;
  }

  function replace(target, name, methods, length) {
    const method = methods[name];
    define(method, "length", { __proto__: null, value: length, writable: false, enumerable: false, configurable: true });
    define(target, name, { __proto__: null, value: method, writable: true, enumerable: false, configurable: true });
  }

  function guard(name) {
    const native = ArrayPrototype[name];
    replace(ArrayPrototype, name, {
      [name](...values) {
        checkLength(this, name);
        return apply(native, this, values);
      },
    }, native.length);
  }

  function guardAll() {
    const names = ["join", "toString", "toLocaleString", "reverse", "copyWithin", "splice", "shift", "unshift", "slice", "sort"];
    for (let i = 0; i < names.length; i++) guard(names[i]);

    const concat = ArrayPrototype.concat;
    const spreads = (value) => {
      if (typeof value !== "object" && typeof value !== "function") return false;
      if (value === null) return false;
      const own = value[spreadable];
      return own === undefined ? isArray(value) : !!own;
    };
    replace(ArrayPrototype, "concat", {
      concat(...values) {
        let total = spreads(this) ? checkLength(this, "concat") : 1;
        const count = values.length;
        for (let i = 0; i < count; i++) total += spreads(values[i]) ? checkLength(values[i], "concat") : 1;
        if (total > MAX_LENGTH) tooLong("concat");
        return apply(concat, this, values);
      },
    }, 1);

    const flatten = (from, length, depth, into, at) => {
      for (let i = 0; i < length; i++) {
        if (!(i in from)) continue;
        const value = from[i];
        if (depth > 0 && isArray(value)) at = flatten(value, checkLength(value, "flat"), depth - 1, into, at);
        else define(into, at++, data(value));
      }
      return at;
    };
    replace(ArrayPrototype, "flat", {
      flat(depth) {
        if (this === null || this === undefined) throw new TypeErr("flat takes an array");
        const length = checkLength(this, "flat");
        const levels = depth === undefined ? 1 : +depth;
        const into = [];
        flatten(Obj(this), length, levels === levels ? levels : 0, into, 0);
        return into;
      },
    }, 0);
    replace(ArrayPrototype, "flatMap", {
      flatMap(callback, thisArg = undefined) {
        if (this === null || this === undefined) throw new TypeErr("flatMap takes an array");
        if (typeof callback !== "function") throw new TypeErr("flatMap takes a function");
        const length = checkLength(this, "flatMap");
        const from = Obj(this);
        const into = [];
        let at = 0;
        for (let i = 0; i < length; i++) {
          if (!(i in from)) continue;
          const value = apply(callback, thisArg, [from[i], i, from]);
          if (isArray(value)) at = flatten(value, checkLength(value, "flatMap"), 0, into, at);
          else define(into, at++, data(value));
        }
        return into;
      },
    }, 1);

    // Over an array it ends at the heap; over other objects nothing need be written.
    const fill = ArrayPrototype.fill;
    replace(ArrayPrototype, "fill", {
      fill(...values) {
        if (!isArray(this)) checkLength(this, "fill");
        return apply(fill, this, values);
      },
    }, 1);

    // A list of keys is walked natively.
    replace(JSON, "stringify", {
      stringify(value, replacer = undefined, space = undefined) {
        if (isArray(replacer)) checkLength(replacer, "JSON.stringify");
        return quote(value, replacer, space);
      },
    }, 3);

    const raw = Str.raw;
    replace(Str, "raw", {
      raw(template, ...values) {
        if (template === null || template === undefined) throw new TypeErr("String.raw takes a template");
        const strings = Obj(template).raw;
        checkLength(strings, "String.raw");
        const count = values.length;
        const list = [{ __proto__: null, raw: strings }];
        for (let i = 0; i < count; i++) define(list, i + 1, data(values[i]));
        return apply(raw, Str, list);
      },
    }, 1);
  }

  // ---- what a cell may not have, and what it may not change ---------------------------------------------------------

  function harden() {
    const gone = ["Date", "Proxy", "performance", "WeakRef", "FinalizationRegistry", "SharedArrayBuffer", "Atomics"];
    for (let i = 0; i < gone.length; i++) remove(G, gone[i]);
    remove(Math, "random");
    // A hook that would run the cells' code whenever the host makes an error.
    remove(Err, "prepareStackTrace");
    // The wrapper object that ends every script, and every plain object, inherits from Object.prototype: a `then` there
    // would make all later scripts and replies thenables. Plain objects can still be given a `then` of their own.
    define(ObjectPrototype, "then", {
      __proto__: null,
      get: freeze(getDescriptor({ get then() { return undefined; } }, "then").get),
      set: freeze(getDescriptor({
        set then(value) {
          if (this !== ObjectPrototype && ((typeof this === "object" && this !== null) || typeof this === "function")) {
            define(this, "then", data(value));
          }
        },
      }, "then").set),
      enumerable: false,
      configurable: false,
    });
    // What `await` and `then` consult on the host's promises.
    define(P.prototype, "constructor", fixed(P));
    define(P, Symbol.species, {
      __proto__: null, get: freeze(getDescriptor(P, Symbol.species).get), set: undefined, enumerable: false, configurable: false,
    });
  }

  harden();
  guardAll();
  install("ctx", members, flowsGetter);
  install("console", consoleMembers, undefined);

  const baseline = { __proto__: null };
  {
    const names = ownKeys(G);
    for (let i = 0; i < names.length; i++) if (typeof names[i] === "string") baseline[names[i]] = true;
  }

  // ---- the panel ----------------------------------------------------------------------------------------------------

  function reading(name) {
    let found;
    try {
      found = getDescriptor(G, name);
    } catch {
      return "\"unreadable\",\"value\"";
    }
    if (found === undefined) return "\"unreadable\",\"value\"";
    if (!hasOwn(found, "value")) return "\"accessor\",\"value\"";
    const value = found.value;
    if (value === null) return "\"null\",\"value\"";
    switch (typeof value) {
      case "undefined":
        return "\"unset\",\"value\"";
      case "string":
        return "\"string\",\"" + value.length + " chars\"";
      case "function": {
        const arity = getDescriptor(value, "length");
        const count = arity !== undefined && hasOwn(arity, "value") && typeof arity.value === "number" ? arity.value : 0;
        return "\"function\",\"arity " + count + "\"";
      }
      case "object":
        try {
          if (isArray(value)) return "\"array\",\"" + value.length + " items\"";
          return "\"object\",\"" + enumerableKeys(value).length + " keys\"";
        } catch {
          return "\"unreadable\",\"value\"";
        }
      default:
        return "\"" + typeof value + "\",\"value\"";
    }
  }

  function thrownName(value, key) {
    try {
      const text = value[key];
      return typeof text === "string" ? apply(toWellFormed, text, []) : undefined;
    } catch {
      return undefined;
    }
  }

  // ---- what the host calls ------------------------------------------------------------------------------------------

  return {
    __proto__: null,
    // A frame opens.
    open() {
      slots = { __proto__: null };
      head = 0;
      next = 0;
      sealed = false;
      closed = false;
      intent = null;
      justification = undefined;
      full = false;
      unread = 0;
      // The engine writes the member `value` of the wrapper that ends a script: a setter there would throw for every
      // later cell.
      const wrapped = getDescriptor(ObjectPrototype, "value");
      if (wrapped !== undefined && !(hasOwn(wrapped, "value") && wrapped.writable)) remove(ObjectPrototype, "value");
    },
    // No request is taken any more.
    close(message) {
      closed = true;
      closedMessage = message;
    },
    // The catalog that `ctx.flows` shows from now on: the JSON text of a list of entries.
    catalog(text) {
      const list = parse(text);
      const map = { __proto__: null };
      for (let i = 0; i < list.length; i++) define(map, list[i].name, data(deepFreeze(list[i])));
      flows = freeze(map);
    },
    // The next queued request, or null.
    take() {
      if (head === next) return null;
      const slot = slots[head];
      head += 1;
      return {
        __proto__: null,
        kind: slot.kind,
        name: slot.name,
        input: slot.input,
        at: slot.at === undefined ? null : slot.at.text,
      };
    },
    queued() {
      return next - head;
    },
    settle(ordinal, text) {
      const slot = slots[ordinal];
      fulfil(slot.resolve, parse(text));
      remove(slots, ordinal);
    },
    // Whatever is queued or with the host is rejected.
    rejectAll(message) {
      for (let i = 0; i < next; i++) {
        const slot = slots[i];
        if (slot !== undefined) slot.reject(new Err(message));
      }
      slots = { __proto__: null };
      head = next;
    },
    latched() {
      return {
        __proto__: null,
        kind: intent === null ? "none" : intent.kind,
        value: intent === null ? "null" : intent.value,
        message: intent === null ? "null" : intent.message,
        justification: justification === undefined ? null : justification,
      };
    },
    unread() {
      return unread;
    },
    // What a thrown value says of itself.
    describe(value) {
      const answer = { __proto__: null, name: "Error", message: "", stack: "" };
      if (typeof value === "string") {
        answer.message = apply(toWellFormed, value, []);
        return answer;
      }
      if ((typeof value === "object" && value !== null) || typeof value === "function") {
        const name = thrownName(value, "name");
        const message = thrownName(value, "message");
        const stack = thrownName(value, "stack");
        if (name !== undefined) answer.name = name;
        if (stack !== undefined) answer.stack = stack;
        answer.message = message === undefined ? (isError(value) ? "" : print(value)) : message;
        return answer;
      }
      answer.message = typeof value === "bigint" ? "" + value : print(value);
      return answer;
    },
    // Whether so many bytes of the heap are free: they are taken and given back.
    free(bytes) {
      try {
        new Buffer(bytes);
        return true;
      } catch {
        return false;
      }
    },
    // The names that cells have bound, as the JSON text of a list of [name, type, size].
    probe() {
      const names = ownKeys(G);
      const count = names.length;
      let out = "[";
      for (let i = 0; i < count; i++) {
        const name = names[i];
        if (typeof name !== "string" || baseline[name] === true) continue;
        out += (out === "[" ? "[" : ",[") + quote(apply(toWellFormed, name, [])) + "," + reading(name) + "]";
      }
      return out + "]";
    },
  };
})
