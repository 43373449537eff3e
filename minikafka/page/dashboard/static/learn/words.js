/** The words of learn mode itself, in English and Chinese. Sentences of chapters come from their
 * catalogues. */

/** @typedef {typeof en} Words */

const en = {
  story: "Story", chapters: "Chapters", chapter: "Chapter", goOn: "Continue", asking: "Choose an answer.",
  waiting: "The cluster stands still until you continue.", right: "Right.", wrong: "Not quite.",
  holds: "holds", checked: "Checked:", code: "The code that runs", missions: "Mechanisms",
  backHere: "Go back to here", done: "This chapter has ended.", next: "Next chapter", again: "Play it again",
  left: "You have left the story: what you did is kept, and the cluster goes on with you.",
  branches: "Other branches", branch: (/** @type {number} */ n, /** @type {string} */ at) => `Branch ${n}, left at ${at}`,
  returnTo: "Return to the story", begun: "begun", finished: "finished", follow: "Open the view that the story is about",
  opening: "The cluster is starting.", language: "Language", link: "Link and test", help: "Keys", documents: "Documents",
  play: "Play", pause: "Pause", back: "Back", nextEvent: "Next event", nextMessage: "Next message", nextTick: "Next tick",
  until: "Play until", place: "Place in the playback", speed: "Speed", realTime: "real time",
  takes: (/** @type {string} */ a, /** @type {string} */ b) => `${a} of the cluster takes ${b}`,
  past: "You are in the past: an action here begins another branch.", stands: "The cluster stands still. Space plays it on.", skipIdle: "fold idle time",
  goTo: "Go to", start: "the start", end: "the end",
  working: "The cluster is playing.", action: "action", warning: "warning", sentence: "sentence", checkpoint: "checkpoint",
  close: "Close", carryOut: "Do it", act: "Act", actions: "Actions", copy: "Copy", copied: "Copied", save: "Save as a file",
  open: "Open a file", asLink: "Link to this moment", asTest: "As a test", asRecipe: "Recipe", longLink: "The recipe is too long for a link.",
  recipeAbout: "Seed, settings and actions decide everything that happens: everybody who opens the link sees the same.",
  badFile: "The file is not a recipe.", playground: "Score", violations: "Violations", failed: "The cluster has failed.",
  untilNames: {
    controller: "a controller is elected", leader: "a leader is elected", isr: "an ISR changes",
    rebalance: "a group rebalances", violation: "an invariant is violated", "message:Produce": "a Produce arrives",
    "message:Fetch": "a Fetch arrives", "message:LeaderAndIsr": "a LeaderAndIsr arrives",
  },
};

/** @type {Words} */
const zh = {
  story: "故事", chapters: "章节", chapter: "章节", goOn: "继续", asking: "请选一个答案。",
  waiting: "集群停在这里，等你继续。", right: "答对了。", wrong: "不太对。",
  holds: "成立", checked: "已检查：", code: "正在运行的代码", missions: "机制",
  backHere: "回到这里", done: "本章结束。", next: "下一章", again: "再放一遍",
  left: "你离开了故事：你的操作保留下来，集群跟着你继续。",
  branches: "其他分支", branch: (n, at) => `分支 ${n}，在 ${at} 离开`,
  returnTo: "回到故事", begun: "已开始", finished: "已完成", follow: "自动打开故事讲到的视图",
  opening: "集群正在启动。", language: "语言", link: "链接与测试", help: "按键", documents: "文档",
  play: "播放", pause: "暂停", back: "后退", nextEvent: "下一个事件", nextMessage: "下一条消息", nextTick: "下一格时间轮",
  until: "播放到", place: "播放位置", speed: "速度", realTime: "实时",
  takes: (a, b) => `集群的 ${a} 用 ${b} 播放`,
  past: "你在过去：在这里操作会开出另一条分支。", stands: "集群停着。按空格继续播放。", skipIdle: "折叠空闲时间",
  goTo: "跳到", start: "开头", end: "末尾",
  working: "集群正在运行。", action: "操作", warning: "警告", sentence: "句子", checkpoint: "检查点",
  close: "关闭", carryOut: "执行", act: "操作", actions: "操作", copy: "复制", copied: "已复制", save: "存为文件",
  open: "打开文件", asLink: "此刻的链接", asTest: "作为测试", asRecipe: "配方", longLink: "配方太长，放不进链接。",
  recipeAbout: "种子、设置和操作决定一切：打开链接的人看到同样的过程。",
  badFile: "这个文件不是配方。", playground: "得分", violations: "违反的不变量", failed: "集群出错了。",
  untilNames: {
    controller: "选出控制器", leader: "选出 leader", isr: "ISR 变化", rebalance: "消费组再均衡",
    violation: "违反不变量", "message:Produce": "一个 Produce 到达", "message:Fetch": "一个 Fetch 到达",
    "message:LeaderAndIsr": "一个 LeaderAndIsr 到达",
  },
};

/** @param {string} language @returns {Words} */
export function wordsOf(language) {
  return language === "zh" ? zh : en;
}

/** The language to begin with: the one chosen before, else the browser's. */
export function firstLanguage() {
  const chosen = localStorage.getItem("minikafka.language");
  if (chosen === "en" || chosen === "zh") return chosen;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}
