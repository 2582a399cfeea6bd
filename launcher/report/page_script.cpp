// The page's script: draws charts to the available width, and again when that changes.
#include "launcher/report/page.h"

namespace lockstep::launcher {

const char* const kPageScript = R"js((() => {
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const node = (name, attributes, text) => {
  const out = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const key in attributes) out.setAttribute(key, attributes[key]);
  if (text !== undefined) out.textContent = text;
  return out;
};
const trim = text => text.includes('.') ? text.replace(/\.?0+$/, '') : text;
const figure = value => {
  const a = Math.abs(value);
  if (a === 0) return '0';
  if (a < 1e-3) { const [m, e] = value.toExponential(2).split('e'); return trim(m) + 'e\u2212' + e.slice(1); }
  for (const [size, letter] of [[1e9, 'G'], [1e6, 'M'], [1e4, 'k']])
    if (a >= size) return (value / (letter === 'k' ? 1e3 : size)).toPrecision(4) + letter;
  return a >= 1000 ? value.toFixed(0) : value.toPrecision(4);
};
// 1, 2 or 5 times a power of ten, about `count` of them.
const ticks = (low, high, count) => {
  const rough = (high - low) / Math.max(1, count), power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= rough * 0.999);
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) out.push(i * step);
  return {values: out, step};
};
// Logarithms of powers of ten, and of what lies between them where those are few.
const decades = (low, high) => {
  for (const between of [[1], [1, 3], [1, 2, 5]]) {
    const out = [];
    for (let e = Math.floor(low); e <= high; ++e)
      for (const f of between) { const v = e + Math.log10(f); if (v >= low && v <= high) out.push(v); }
    if (out.length >= 3) return out;
  }
  return ticks(low, high, 3).values;
};
const tickText = (value, step) => {
  const a = Math.abs(value);
  if (a === 0) return '0';
  if (a >= 1e6) return trim((value / 1e6).toFixed(Math.max(0, -Math.floor(Math.log10(step / 1e6))))) + 'M';
  if (a >= 1e4) return trim((value / 1e3).toFixed(Math.max(0, -Math.floor(Math.log10(step / 1e3))))) + 'k';
  if (step < 1e-4) {
    const [m, e] = value.toExponential(3).split('e');
    return trim(m) + 'e\u2212' + e.slice(1);
  }
  return value.toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
};
// Means of the values around each, with weights that fall by the distance in steps; of logarithms, where those
// are drawn.
const smoothed = (series, log) => {
  const x = series.x, y = log ? series.y.map(Math.log) : series.y, n = x.length, span = (x[n - 1] - x[0]) / 60;
  const pass = order => {
    const sums = new Array(n), weights = new Array(n);
    let sum = 0, weight = 0, before = x[order[0]];
    for (const i of order) {
      const keep = Math.exp(-Math.abs(x[i] - before) / span);
      before = x[i];
      sums[i] = sum = sum * keep + y[i]; weights[i] = weight = weight * keep + 1;
    }
    return [sums, weights];
  };
  const order = x.map((_, i) => i), [a, v] = pass(order), [b, w] = pass(order.slice().reverse());
  const means = y.map((value, i) => (a[i] + b[i] - value) / (v[i] + w[i] - 1));
  return log ? means.map(Math.exp) : means;
};
const nearest = (x, at) => {
  let low = 0, high = x.length - 1;
  while (high - low > 1) { const middle = (low + high) >> 1; if (x[middle] < at) low = middle; else high = middle; }
  return at - x[low] <= x[high] - at ? low : high;
};

const charts = [];
const extent = charts => {
  let first = Infinity, last = -Infinity;
  for (const chart of charts) for (const series of chart.series) if (series.x.length) {
    first = Math.min(first, series.x[0]); last = Math.max(last, series.x[series.x.length - 1]);
  }
  return [first, last > first ? last : first + 1];
};
const steps = extent(data.charts.filter(chart => !chart.x));  // charts over steps share their axis

class Chart {
  constructor(figureElement, chart) {
    this.chart = chart;
    this.range = chart.x ? extent([chart]) : steps;
    this.lines = [];
    chart.series.forEach((series, i) => {
      const color = `var(--c${i % 10})`;
      const smooth = series.smooth && series.x.length > 40 ? smoothed(series, chart.log && Math.min(...series.y) > 0) : null;
      this.lines.push({series, color, y: smooth || series.y, raw: smooth ? series.y : null});
    });
    const caption = document.createElement('figcaption');
    const title = document.createElement('span'), where = document.createElement('small');
    title.textContent = chart.title;
    const below = [chart.unit, chart.log ? 'log scale' : ''].filter(text => text).join(', ');
    if (below) { const unit = document.createElement('small'); unit.textContent = ' ' + below; title.append(unit); }
    caption.append(title, where);
    this.where = where;
    this.legend = document.createElement('div');
    this.legend.className = 'legend';
    this.svg = node('svg', {role: 'img', 'aria-label': chart.title});
    figureElement.append(caption, this.legend, this.svg);
    this.svg.addEventListener('pointermove', event => {
      const at = event.clientX - this.svg.getBoundingClientRect().left;
      const [first, last] = this.range;
      const step = first + (at - this.left) / (this.right - this.left) * (last - first);
      for (const each of this.alike()) each.point(Math.min(last, Math.max(first, step)));
    });
    this.svg.addEventListener('pointerleave', () => { for (const each of this.alike()) each.point(null); });
    this.draw();
    this.point(null);
  }
  alike() { return this.chart.x ? [this] : charts.filter(each => !each.chart.x); }
  draw() {
    const [first, last] = this.range;
    const width = this.svg.clientWidth || 460, height = width < 420 ? 190 : 220;
    this.svg.setAttribute('height', height);
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.svg.replaceChildren();
    let low = Infinity, high = -Infinity;
    for (const line of this.lines) for (const y of line.series.y) { low = Math.min(low, y); high = Math.max(high, y); }
    if (!isFinite(low)) { low = 0; high = 1; }
    const log = this.chart.log && low > 0;
    let peak = 0;  // of few values that would press all others flat: they leave the picture, and it is said how far
    if (!log && this.chart.zero) {
      const all = this.lines.flatMap(line => line.series.y).sort((a, b) => a - b), most = all[Math.floor((all.length - 1) * 0.97)];
      if (all.length > 20 && most > 0 && high > 3 * most) { peak = high; high = 1.5 * most; }
    }
    if (log) { low = Math.log10(low); high = Math.log10(high); } else if (this.chart.zero) low = Math.min(0, low);
    if (high - low < 1e-12 * Math.max(1e-30, Math.abs(high))) { const pad = Math.abs(high) * 0.05 || 1; if (low) low -= pad; high += pad; }
    const pad = (high - low) * 0.04;
    high += pad; if (log || !(this.chart.zero && low === 0)) low -= pad;
    const top = 8, bottom = height - 24;
    const yTicks = log ? {values: decades(low, high)} : ticks(low, high, 4);
    const labels = yTicks.values.map(v => log ? trim(figure(Math.pow(10, v))) : tickText(v, yTicks.step));
    this.left = 12 + 7 * Math.max(...labels.map(text => text.length)); this.right = width - 10;
    const x = step => this.left + (step - first) / (last - first) * (this.right - this.left);
    const at = value => bottom - (value - low) / (high - low) * (bottom - top);
    const y = value => at(log ? Math.log10(value) : value);
    this.x = x; this.y = y; this.top = top; this.bottom = bottom;
    yTicks.values.forEach((value, i) => {
      this.svg.append(node('line', {class: 'gridline', x1: this.left, x2: this.right, y1: at(value), y2: at(value)}),
        node('text', {x: this.left - 8, y: at(value) + 4, 'text-anchor': 'end'}, labels[i]));
    });
    this.svg.append(node('line', {class: 'axis', x1: this.left, x2: this.right, y1: bottom, y2: bottom}));
    const xTicks = ticks(first, last, Math.max(3, Math.floor(width / 75)));
    for (const value of xTicks.values) {
      if (!this.chart.x && value !== Math.round(value)) continue;
      const anchor = x(value) > width - 24 ? 'end' : x(value) < this.left + 8 ? 'start' : 'middle';
      this.svg.append(node('text', {x: x(value), y: height - 6, 'text-anchor': anchor}, tickText(value, xTicks.step)));
    }
    for (const mark of data.marks) if (!this.chart.x && mark.step > first && mark.step < last) {
      const line = node('line', {class: mark.bad ? 'mark bad' : 'mark', x1: x(mark.step), x2: x(mark.step), y1: top, y2: bottom});
      line.append(node('title', {}, `step ${mark.step}: ${mark.text}`));
      this.svg.append(line);
    }
    if (peak) this.svg.append(node('text', {x: this.right, y: top + 10, 'text-anchor': 'end'}, `up to ${trim(figure(peak))}`));
    const path = (series, values, attributes) => {
      const d = series.x.map((step, i) => `${i ? 'L' : 'M'}${x(step).toFixed(1)} ${y(values[i]).toFixed(1)}`).join('');
      this.svg.append(node('path', {d, fill: 'none', 'stroke-linejoin': 'round', ...attributes}));
    };
    for (const {series, color, y: values, raw} of this.lines) {
      if (raw) path(series, raw, {style: `stroke:${color}`, 'stroke-width': 1, opacity: 0.35});
      path(series, values, {style: `stroke:${color}`, 'stroke-width': 1.75});
      if (series.dots || series.x.length === 1) series.x.forEach((step, i) =>
        this.svg.append(node('circle', {cx: x(step), cy: y(values[i]), r: 3, style: `fill:${color};stroke:var(--panel)`, 'stroke-width': 1})));
    }
    this.cursor = node('g', {});
    this.svg.append(this.cursor);
  }
  // The values at a step; null: the last ones.
  point(step) {
    this.cursor.replaceChildren();
    this.legend.replaceChildren();
    let shown = null;
    for (const {series, color, y, raw} of this.lines) {
      if (!series.x.length) continue;
      const i = step === null ? series.x.length - 1 : nearest(series.x, step);
      if (shown === null) shown = series.x[i];
      const entry = document.createElement('span'), dash = document.createElement('i'), value = document.createElement('b');
      dash.style.color = color;
      if (series.dots) dash.className = 'dot';
      value.textContent = figure(y[i]);
      entry.append(dash, series.name + ' ', value, raw ? ` \u00b7 raw ${figure(raw[i])}` : '', series.dots && !this.chart.x ? ` at ${series.x[i]}` : '');
      this.legend.append(entry);
      if (step !== null) this.cursor.append(
        node('circle', {cx: this.x(series.x[i]), cy: this.y(y[i]), r: 3.5, style: `fill:${color};stroke:var(--panel)`, 'stroke-width': 1.5}));
    }
    this.where.textContent = shown === null ? 'no values' : this.chart.x ? `${figure(shown)} ${this.chart.x}` : `step ${shown}`;
    if (step !== null && shown !== null) this.cursor.prepend(
      node('line', {class: 'cursor', x1: this.x(shown), x2: this.x(shown), y1: this.top, y2: this.bottom}));
  }
}

for (const element of document.querySelectorAll('[data-chart]'))
  charts.push(new Chart(element, data.charts[+element.dataset.chart]));
let width = window.innerWidth;
window.addEventListener('resize', () => {
  if (window.innerWidth === width) return;
  width = window.innerWidth;
  for (const chart of charts) { chart.draw(); chart.point(null); }
});
window.addEventListener('beforeprint', () => { for (const chart of charts) { chart.draw(); chart.point(null); } });
})();
)js";

}  // namespace lockstep::launcher
