"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const svg = document.querySelector("figure svg");
  const now = document.getElementById("now");
  const space = "http://www.w3.org/2000/svg";
  const box = svg.viewBox.baseVal;
  const width = data.right - data.left;
  let view = [0, data.seconds];

  // Only what lies between the ends of the axis is shown.
  const clip = document.createElementNS(space, "clipPath");
  clip.id = "plot";
  const window_ = document.createElementNS(space, "rect");
  for (const [name, value] of [["x", data.left], ["y", 0], ["width", width], ["height", box.height]]) {
    window_.setAttribute(name, value);
  }
  clip.append(window_);
  svg.append(clip);
  const shapes = [...svg.querySelectorAll("polyline, polygon")]
    .filter((shape) => shape.getAttribute("stroke") !== data.grid)
    .map((shape) => ({
      shape,
      points: shape.getAttribute("points").trim().split(/\s+/).map((pair) => pair.split(",").map(Number)),
    }));
  const ticks = [...svg.querySelectorAll("text")].filter((text) => text.getAttribute("fill") === data.time);

  function line(color, opacity) {
    const made = document.createElementNS(space, "rect");
    for (const [name, value] of [["y", 0], ["width", 2], ["height", box.height], ["fill", color], ["opacity", opacity],
      ["visibility", "hidden"], ["pointer-events", "none"]]) {
      made.setAttribute(name, value);
    }
    svg.append(made);
    return made;
  }
  const cross = line("#888888", 0.7);
  const chosen = line("#888888", 0.25);

  const clock = (seconds) => {
    const whole = Math.floor(seconds);
    return Math.floor(whole / 60) + ":" + String(whole % 60).padStart(2, "0");
  };
  const timeAt = (x) => view[0] + (x - data.left) / width * (view[1] - view[0]);
  const xOf = (event) => {
    const bounds = svg.getBoundingClientRect();
    const x = (event.clientX - bounds.left) / bounds.width * box.width;
    return Math.min(data.right, Math.max(data.left, x));
  };
  const short = (value) => value >= 1e4 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(4));

  function show() {
    const scale = data.seconds / (view[1] - view[0]);
    const shift = view[0] / data.seconds * width;
    for (const { shape, points } of shapes) {
      shape.setAttribute("clip-path", "url(#plot)");
      const moved = points.map(([x, y]) => (data.left + (x - data.left - shift) * scale).toFixed(1) + "," + y);
      shape.setAttribute("points", moved.join(" "));
    }
    for (const tick of ticks) {
      tick.textContent = clock(timeAt(Number(tick.getAttribute("x"))));
    }
  }

  function nearest(points, at) {
    let low = 0;
    let high = points.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (points[middle][0] < at) low = middle + 1; else high = middle;
    }
    return points[low];
  }

  function read(at) {
    now.textContent = "";
    const add = (text, strong) => {
      const part = document.createElement(strong ? "b" : "span");
      part.textContent = text;
      now.append(part);
    };
    add(clock(at) + "  ", true);
    for (const panel of data.panels) {
      const values = panel.series.filter((one) => one.points.length > 0)
        .map((one) => (one.name ? one.name + " " : "") + short(nearest(one.points, at)[1]));
      if (values.length > 0) {
        add("  " + panel.title + ": ", false);
        add(values.join(", ") + ";", true);
      }
    }
  }

  let from = null;
  svg.addEventListener("pointerdown", (event) => { from = xOf(event); svg.setPointerCapture(event.pointerId); });
  svg.addEventListener("pointermove", (event) => {
    const x = xOf(event);
    cross.setAttribute("x", x);
    cross.setAttribute("visibility", "visible");
    read(timeAt(x));
    if (from !== null) {
      chosen.setAttribute("x", Math.min(from, x));
      chosen.setAttribute("width", Math.abs(from - x));
      chosen.setAttribute("visibility", "visible");
    }
  });
  svg.addEventListener("pointerup", (event) => {
    const x = xOf(event);
    if (from !== null && Math.abs(from - x) > 20) {
      view = [timeAt(Math.min(from, x)), timeAt(Math.max(from, x))];
      show();
    }
    from = null;
    chosen.setAttribute("visibility", "hidden");
  });
  svg.addEventListener("dblclick", () => { view = [0, data.seconds]; show(); });
  for (const toggle of document.querySelectorAll("#runs input")) {
    toggle.addEventListener("change", () => {
      for (const { shape } of shapes) {
        if (shape.getAttribute("stroke") === toggle.dataset.color) {
          shape.style.display = toggle.checked ? "" : "none";
        }
      }
    });
  }
})();
